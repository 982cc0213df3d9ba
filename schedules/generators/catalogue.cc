#include "schedules/generators/catalogue.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/generators/did_you_mean.h"

namespace sluice {
namespace {

// Actions number stages with 16 bits.
constexpr int64_t kMostStages = std::numeric_limits<uint16_t>::max() + int64_t{1};

// 10^8 forwards and as many backwards: beyond, a table takes tens of gigabytes to simulate.
constexpr int64_t kMostCells = 100'000'000;

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
    return absl::InvalidArgumentError(
        absl::StrCat("group must be at least 1 (or 0 for the usual one), not ", request.group));
  }
  if (request.update_every < 0 || request.memory_limit < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.update_every < 0 ? "update-every" : "the memory limit",
                     " must be at least 1 (or 0 for the usual one), not ",
                     std::min(request.update_every, request.memory_limit)));
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

absl::StatusOr<const CatalogueEntry*> FindSchedule(absl::string_view name) {
  for (const CatalogueEntry& entry : Catalogue()) {
    if (name == entry.name) return &entry;
  }
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : Catalogue()) names.emplace_back(entry.name);
  return absl::NotFoundError(absl::StrCat("no schedule '", name, "'; ", DidYouMean(name, names)));
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

}  // namespace sluice
