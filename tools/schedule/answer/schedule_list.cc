#include "tools/schedule/answer/schedule_list.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "schedules/generators/catalogue.h"
#include "tools/schedule/timetable/schedule_auto.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

constexpr int kNameColumns = 16;
constexpr int kLabelColumns = 9;
// The table of each schedule's needs, bubble and memory, with its name and summary.
constexpr int kSummaryColumns = 50;
constexpr int kNeedsColumns = 15;
constexpr int kBubbleColumns = 40;
constexpr int kTableColumns = 158;
constexpr int kLeastColumns = 50;

const char* KindOf(const CatalogueEntry& entry) {
  switch (entry.updates) {
    case WeightUpdates::kFlush:
      return "synchronous";
    case WeightUpdates::kEachMicroBatch:
      return "an update after each micro-batch";
    case WeightUpdates::kDoubleBuffered:
      return "an update after every k micro-batches";
  }
  return "";
}

bool Asynchronous(const CatalogueEntry& entry) { return entry.updates != WeightUpdates::kFlush; }

void AppendParagraph(const CatalogueEntry& entry, int columns, std::string& out) {
  absl::StrAppendFormat(&out, "\n%-*s", kNameColumns, entry.name);
  AppendWrapped(entry.summary, kNameColumns, kNameColumns, columns, out);
  const auto line = [&](const char* label, absl::string_view text) {
    absl::StrAppendFormat(&out, "  %-*s", kLabelColumns, label);
    AppendWrapped(text, 2 + kLabelColumns, 2 + kLabelColumns, columns, out);
  };
  line("needs", entry.needs);
  line("bubble", entry.bubble);
  line("memory", entry.memory);
  if (absl::string_view(entry.weights) != "once") line("weights", entry.weights);
  line("source", entry.source);
}

void AppendRow(const CatalogueEntry& entry, int columns, std::string& out) {
  absl::StrAppendFormat(&out, "\n%-*s%-*s %-*s %-*s %s\n", kNameColumns, entry.name,
                        kSummaryColumns, entry.summary, kNeedsColumns, entry.needs, kBubbleColumns,
                        entry.bubble, entry.memory);
  const std::string indent(kNameColumns, ' ');
  std::string second = entry.source;
  if (absl::string_view(entry.weights) != "once") {
    absl::StrAppend(&second, " (weights: ", entry.weights, ")");
  }
  out += indent;
  AppendWrapped(second, kNameColumns, kNameColumns, columns, out);
}

std::string Legend(int columns) {
  std::string text;
  AppendWrapped(
      "p ranks, r the rank (from 0), m micro-batches, v chunks (stages per rank), g micro-batches "
      "in the largest group, k in an update; F, B = I + W: durations of a stage, X of a pair",
      0, 0, columns, text);
  AppendWrapped(
      "bubble: idle share of the makespan, for equal stages and no latency; memory: (stage, "
      "micro-batch) activations held at once by rank r",
      0, 0, columns, text);
  return text;
}

// The catalogue and `auto`.
std::vector<CatalogueEntry> ListedSchedules() {
  const absl::Span<const CatalogueEntry> catalogue = Catalogue();
  std::vector<CatalogueEntry> listed(catalogue.begin(), catalogue.end());
  listed.push_back(AutoEntry());
  return listed;
}

}  // namespace

std::string CatalogueText(int columns) {
  columns = std::max(columns, kLeastColumns);
  const bool table = columns >= kTableColumns;
  std::string text = Legend(columns);
  if (table) {
    absl::StrAppendFormat(&text, "\n%-*s%-*s %-*s %-*s %s\n", kNameColumns, "schedule",
                          kSummaryColumns, "", kNeedsColumns, "needs", kBubbleColumns, "bubble",
                          "memory");
  }
  for (const bool asynchronous : {false, true}) {
    if (asynchronous) {
      text += "\n";
      AppendWrapped("without a flush: weights change while micro-batches are in flight", 0, 0,
                    columns, text);
    }
    for (const CatalogueEntry& entry : ListedSchedules()) {
      if (Asynchronous(entry) != asynchronous) continue;
      table ? AppendRow(entry, columns, text) : AppendParagraph(entry, columns, text);
    }
  }
  return text;
}

nlohmann::ordered_json CatalogueJson() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CatalogueEntry& entry : ListedSchedules()) {
    list.push_back({{"name", entry.name},
                    {"summary", entry.summary},
                    {"needs", entry.needs},
                    {"bubble", entry.bubble},
                    {"memory", entry.memory},
                    {"weights", entry.weights},
                    {"source", entry.source},
                    {"updates", KindOf(entry)},
                    {"synchronous", !Asynchronous(entry)},
                    {"splits_backward", entry.splits_backward},
                    {"default_chunks", entry.default_chunks},
                    {"takes_chunks", entry.chunk_step > 0},
                    {"takes_group", entry.takes_group},
                    {"takes_costs", entry.takes_costs}});
  }
  return list;
}

}  // namespace sluice
