#include "tools/schedule/timetable/schedule_names.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// A flag that some schedules take, and that changes nothing in others.
struct ChosenFlag {
  const char* name;
  std::optional<int> ScheduleQuestion::*value;
  bool (*taken)(const CatalogueEntry& entry);
  const char* takes;  // what one that takes it does; and what one that does not
  const char* lacks;
};

constexpr ChosenFlag kChosenFlags[] = {
    {"--group", &ScheduleQuestion::group, [](const auto& entry) { return entry.takes_group; },
     "has groups", "has no groups"},
    {"--update-every", &ScheduleQuestion::update_every,
     [](const auto& entry) { return entry.updates == WeightUpdates::kDoubleBuffered; },
     "chooses when weights change", "does not choose when weights change"},
};

// What is known of `name`: of a file, that it takes no such flag.
absl::StatusOr<CatalogueEntry> EntryOf(const std::string& name) {
  return NamesFile(name) ? CatalogueEntry() : FindEntry(name);
}

// Whether it is generated, rather than searched for or read.
bool IsGenerated(const CatalogueEntry& entry) { return entry.generate != nullptr; }

// Whether a number of chunks changes something, or is what there is in any case. That of a file is
// compared with its own.
bool TakesChunks(const CatalogueEntry& entry, int chunks) {
  return !IsGenerated(entry) || entry.chunk_step > 0 || entry.default_chunks == chunks;
}

// Whether `takes` holds for one of the names. Whoever names what there is not is told so later.
template <typename Takes>
bool AnyOf(const std::vector<std::string>& names, const Takes& takes) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const absl::StatusOr<CatalogueEntry> entry = EntryOf(name);
    return !entry.ok() || takes(*entry);
  });
}

absl::Status NoneTakes(const std::vector<std::string>& names, absl::string_view flag, int value,
                       absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " ", value, ": none of ",
                                                 absl::StrJoin(names, ", "), " ", what, "; leave ",
                                                 flag, " out"));
}

}  // namespace

CatalogueEntry AutoEntry() {
  return {.name = kAuto,
          .summary = "the best found for your costs, and a proven bound",
          .needs = "any v",
          .bubble = "within the gap it states",
          .memory = "at most --memory-limit, >= v",
          .source = "sluice; takes --placement, --cost or --costs, --memory-limit and --time-limit",
          .splits_backward = true,
          .default_chunks = 1,
          .generate = nullptr};
}

absl::StatusOr<CatalogueEntry> FindEntry(const std::string& name) {
  if (name == kAuto) return AutoEntry();
  const absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(name, {kAuto});
  if (!entry.ok()) return entry.status();
  return **entry;
}

bool IsPlan(const std::string& file) { return absl::EndsWith(file, ".json"); }

std::string NameOfFile(const std::string& file) {
  return file == kStandardInput ? "standard input" : file;
}

bool NamesFile(const std::string& what) {
  return what == kStandardInput || absl::EndsWith(what, ".csv") || IsPlan(what) ||
         absl::StrContains(what, "/");
}

absl::Status CheckTakes(const CatalogueEntry& entry, const ScheduleQuestion& asked) {
  for (const ChosenFlag& flag : kChosenFlags) {
    if (!(asked.*flag.value).has_value() || flag.taken(entry)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", entry.name, " ", flag.lacks, "; leave ", flag.name, " out"));
  }
  return absl::OkStatus();
}

absl::Status CheckFileTakes(const std::string& name, const ScheduleQuestion& asked) {
  for (const ChosenFlag& flag : kChosenFlags) {
    if (!(asked.*flag.value).has_value()) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " is a whole timetable, in which ",
                                                   flag.name, " changes nothing; leave it out"));
  }
  return absl::OkStatus();
}

absl::Status CheckTaken(const std::vector<std::string>& names, const ScheduleQuestion& asked) {
  for (const ChosenFlag& flag : kChosenFlags) {
    const std::optional<int>& value = asked.*flag.value;
    if (!value.has_value() || AnyOf(names, flag.taken)) continue;
    return NoneTakes(names, flag.name, *value, flag.takes);
  }
  const std::optional<int>& chunks = asked.chunks;
  const auto takes = [&](const CatalogueEntry& entry) { return TakesChunks(entry, *chunks); };
  if (!chunks.has_value() || AnyOf(names, takes)) return absl::OkStatus();
  return NoneTakes(names, "--chunks", *chunks, "has a choice of chunks");
}

ScheduleQuestion QuestionFor(const std::string& name, ScheduleQuestion asked) {
  const absl::StatusOr<CatalogueEntry> entry = EntryOf(name);
  if (!entry.ok()) return asked;
  if (IsGenerated(*entry) && entry->chunk_step == 0) asked.chunks.reset();
  for (const ChosenFlag& flag : kChosenFlags) {
    if (!flag.taken(*entry)) (asked.*flag.value).reset();
  }
  return asked;
}

}  // namespace sluice
