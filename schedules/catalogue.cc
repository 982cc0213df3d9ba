#include "schedules/catalogue.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/edit_distance.h"
#include "schedules/generators.h"
#include "schedules/validate.h"

namespace sluice {
namespace {

constexpr CatalogueEntry kCatalogue[] = {
    {.name = "gpipe",
     .summary = "all forwards, a flush, all backwards",
     .needs = "v = 1",
     .bubble = "(p-1)/(m+p-1)",
     .memory = "m",
     .source = "Huang et al., GPipe, NeurIPS 2019, section 2.3",
     .splits_backward = false,
     .default_chunks = 1,
     .generate = GenerateGPipe},
    {.name = "1f1b",
     .summary = "one forward, one backward in steady state",
     .needs = "v = 1",
     .bubble = "(p-1)/(m+p-1)",
     .memory = "min(m, p-r)",
     .source = "Narayanan et al., Megatron-LM, SC 2021, section 2.2.1",
     .splits_backward = false,
     .default_chunks = 1,
     .generate = GenerateOneFOneB},
    {.name = "interleaved",
     .summary = "1F1B over v chunks a rank, g micro-batches at a time",
     .needs = "g >= p, m mod g = 0 or >= p",
     .bubble = "(p-1)/(v*m+p-1), g = p",
     .memory = "min(v*m, 2(p-r-1)+(v-1)g+1)",
     .source = "Narayanan et al., Megatron-LM, SC 2021, section 2.2.2",
     .splits_backward = false,
     .default_chunks = 2,
     .generate = GenerateInterleaved},
    {.name = "zb-h1",
     .summary = "1F1B with W put off to fill the cool-down",
     .needs = "v = 1",
     .bubble = "(p-1)/(3m+p-1), F = I = W",
     .memory = "min(m, p)",
     .source = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.1",
     .splits_backward = true,
     .default_chunks = 1,
     .generate = GenerateZbH1},
};

// Names that the command line reserves for schedules to come.
constexpr absl::string_view kPlanned[] = {
    "eager-1f1b", "interleaved-zb", "bfs",     "zb-h2",  "zb-2p",     "zbv",          "v-half",
    "v-min",      "dualpipev",      "chimera", "hanayo", "pipedream", "pipedream-2bw"};

// Actions number stages with 16 bits.
constexpr int64_t kMostStages = std::numeric_limits<uint16_t>::max() + int64_t{1};

// 10^8 forwards and as many backwards: beyond, a table takes tens of gigabytes to simulate.
constexpr int64_t kMostCells = 100'000'000;

std::vector<std::string> NamesNearestFirst(absl::string_view name) {
  std::vector<std::pair<int, std::string>> names;
  for (const CatalogueEntry& entry : kCatalogue) {
    names.emplace_back(EditDistance(name, entry.name), entry.name);
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> sorted;
  sorted.reserve(names.size());
  for (auto& [distance, known] : names) sorted.push_back(std::move(known));
  return sorted;
}

absl::Status CheckCounts(const ScheduleRequest& request) {
  const std::pair<const char*, int> counts[] = {{"ranks", request.ranks},
                                                {"micro-batches", request.micro_batches},
                                                {"chunks", request.chunks}};
  for (const auto& [what, count] : counts) {
    if (count < 1) {
      return absl::InvalidArgumentError(absl::StrCat(what, " must be at least 1, not ", count));
    }
  }
  if (request.group < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "group must be at least 1 (or 0 for one micro-batch a rank), not ", request.group));
  }
  const int64_t stages = int64_t{request.ranks} * request.chunks;
  if (stages > kMostStages) {
    return absl::InvalidArgumentError(absl::StrCat(request.ranks, " ranks x ", request.chunks,
                                                   " chunks are ", stages, " stages; at most ",
                                                   kMostStages, " are possible"));
  }
  if (stages * request.micro_batches > kMostCells) {
    return absl::InvalidArgumentError(absl::StrCat(
        stages, " stages x ", request.micro_batches, " micro-batches are ",
        stages * request.micro_batches, " forwards; at most ", kMostCells, " are possible"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const CatalogueEntry> Catalogue() { return kCatalogue; }

absl::StatusOr<const CatalogueEntry*> FindSchedule(absl::string_view name) {
  for (const CatalogueEntry& entry : kCatalogue) {
    if (name == entry.name) return &entry;
  }
  const std::vector<std::string> nearest = NamesNearestFirst(name);
  const std::string known = absl::StrCat("there are: ", absl::StrJoin(nearest, ", "));
  if (std::find(std::begin(kPlanned), std::end(kPlanned), name) != std::end(kPlanned)) {
    return absl::NotFoundError(absl::StrCat("schedule '", name, "' is not available yet; ", known));
  }
  return absl::NotFoundError(
      absl::StrCat("no schedule '", name, "'; did you mean '", nearest.front(), "'? ", known));
}

absl::Status CheckScheduleSize(const ScheduleRequest& request) { return CheckCounts(request); }

absl::StatusOr<Timetable> GenerateSchedule(absl::string_view name, const ScheduleRequest& request) {
  absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(name);
  if (!entry.ok()) return entry.status();
  if (absl::Status counts = CheckCounts(request); !counts.ok()) return counts;
  absl::StatusOr<Timetable> table = (*entry)->generate(request);
  if (!table.ok()) return table;
  if (absl::Status sound = ValidateTimetable(*table); !sound.ok()) return sound;
  return table;
}

absl::Status RequireOneChunk(const char* name, const ScheduleRequest& request) {
  if (request.chunks == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schedule ", name,
                                                 " needs one chunk per rank, not ", request.chunks,
                                                 "; interleaved takes several"));
}

Timetable EmptyTimetable(const char* name, const ScheduleRequest& request, Placement placement) {
  Timetable table;
  table.name = name;
  table.placement = std::move(placement);
  table.micro_batches = request.micro_batches;
  table.rows.resize(static_cast<size_t>(request.ranks));
  return table;
}

Action ComputeAction(Op op, int stage, int micro_batch) {
  return Action{.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = micro_batch};
}

}  // namespace sluice
