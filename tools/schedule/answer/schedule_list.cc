#include "tools/schedule/answer/schedule_list.h"

#include <algorithm>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "schedules/generators/catalogue.h"
#include "tools/schedule/timetable/schedule_names.h"
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

// The catalogue and `auto`.
std::vector<CatalogueEntry> ListedSchedules() {
  const absl::Span<const CatalogueEntry> catalogue = Catalogue();
  std::vector<CatalogueEntry> listed(catalogue.begin(), catalogue.end());
  listed.push_back(AutoEntry());
  return listed;
}

void AppendSummary(const CatalogueEntry& entry, int columns, std::string& out) {
  absl::StrAppendFormat(&out, "%-*s", kNameColumns, entry.name);
  AppendWrapped(entry.summary, kNameColumns, kNameColumns, columns, out);
}

// All schedules as `append` writes them; under `heading`, those without a flush.
void AppendAll(const std::string& heading,
               absl::FunctionRef<void(const CatalogueEntry&, std::string&)> append,
               std::string& out) {
  for (const bool asynchronous : {false, true}) {
    if (asynchronous) out += heading;
    for (const CatalogueEntry& entry : ListedSchedules()) {
      if (Asynchronous(entry) == asynchronous) append(entry, out);
    }
  }
}

}  // namespace

void AppendFact(absl::string_view label, absl::string_view text, int columns, std::string& out) {
  absl::StrAppendFormat(&out, "  %-*s", kLabelColumns, label);
  AppendWrapped(text, 2 + kLabelColumns, 2 + kLabelColumns, columns, out);
}

void AppendEntry(const CatalogueEntry& entry, int columns, std::string& out) {
  AppendSummary(entry, columns, out);
  AppendFact("needs", entry.needs, columns, out);
  AppendFact("bubble", entry.bubble, columns, out);
  AppendFact("memory", entry.memory, columns, out);
  if (absl::string_view(entry.weights) != "once") {
    AppendFact("weights", entry.weights, columns, out);
  }
  AppendFact("source", entry.source, columns, out);
}

std::string FormulaLegend(int columns) {
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

std::string CatalogueText(int columns) {
  columns = std::max(columns, kLeastColumns);
  const bool table = columns >= kTableColumns;
  std::string text = FormulaLegend(columns);
  if (table) {
    absl::StrAppendFormat(&text, "\n%-*s%-*s %-*s %-*s %s\n", kNameColumns, "schedule",
                          kSummaryColumns, "", kNeedsColumns, "needs", kBubbleColumns, "bubble",
                          "memory");
  }
  std::string heading = "\n";
  AppendWrapped("without a flush: weights change while micro-batches are in flight", 0, 0, columns,
                heading);
  const auto append = [&](const CatalogueEntry& entry, std::string& out) {
    if (table) return AppendRow(entry, columns, out);
    out += "\n";
    AppendEntry(entry, columns, out);
  };
  AppendAll(heading, append, text);
  return text;
}

std::string BriefCatalogueText(int columns) {
  columns = std::max(columns, kLeastColumns);
  std::string text;
  const auto append = [columns](const CatalogueEntry& entry, std::string& out) {
    AppendSummary(entry, columns, out);
  };
  AppendAll("\nwithout a flush:\n", append, text);
  text += "\n";
  AppendWrapped("all about one of them: sluice schedule list NAME", 0, 0, columns, text);
  return text;
}

nlohmann::ordered_json EntryJson(const CatalogueEntry& entry) {
  return {{"name", entry.name},
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
          {"takes_costs", entry.takes_costs}};
}

nlohmann::ordered_json CatalogueJson() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CatalogueEntry& entry : ListedSchedules()) list.push_back(EntryJson(entry));
  return list;
}

}  // namespace sluice
