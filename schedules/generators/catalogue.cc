#include "schedules/generators/catalogue.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/counted.h"
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
    return absl::InvalidArgumentError(
        absl::StrCat(Counted(request.ranks, "rank"), " x ", Counted(request.chunks, "chunk"),
                     " are ", stages, " stages; at most ", kMostStages, " are possible"));
  }
  if (stages * request.micro_batches > kMostCells) {
    return absl::InvalidArgumentError(absl::StrCat(
        Counted(stages, "stage"), " x ", Counted(request.micro_batches, "micro-batch"), " are ",
        stages * request.micro_batches, " forwards; at most ", kMostCells, " are possible"));
  }
  return absl::OkStatus();
}

// The table may be read while a schedule is registered: entries never move, and the count includes
// one only when it is complete.
class Table {
 public:
  Table() : entries_(kMostRegistered + PublishedSchedules().size()) {
    std::copy(PublishedSchedules().begin(), PublishedSchedules().end(), entries_.begin());
    count_ = PublishedSchedules().size();
  }
  absl::Span<const CatalogueEntry> entries() const {
    return {entries_.data(), count_.load(std::memory_order_acquire)};
  }
  absl::Status Add(const CatalogueEntry& entry) {
    const std::lock_guard<std::mutex> lock(adding_);
    for (const CatalogueEntry& known : entries()) {
      if (absl::string_view(entry.name) == known.name) {
        return absl::AlreadyExistsError(absl::StrCat("there is a schedule '", entry.name,
                                                     "' already; give the new one another name"));
      }
    }
    const size_t count = count_.load(std::memory_order_relaxed);
    if (count == entries_.size()) {
      return absl::ResourceExhaustedError(absl::StrCat("schedule '", entry.name,
                                                       "': a program can register ",
                                                       kMostRegistered, " schedules, and has"));
    }
    entries_[count] = entry;
    count_.store(count + 1, std::memory_order_release);
    return absl::OkStatus();
  }

 private:
  std::mutex adding_;
  std::vector<CatalogueEntry> entries_;
  std::atomic<size_t> count_ = 0;
};

Table& TheTable() {
  static Table* const table = new Table;  // never destroyed: other threads may still read it
  return *table;
}

bool IsNameLetter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
}

absl::Status CheckEntry(const CatalogueEntry& entry) {
  const absl::string_view name = entry.name == nullptr ? "" : entry.name;
  if (name.empty() || name.front() == '-' || !std::all_of(name.begin(), name.end(), IsNameLetter)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name,
                     "' is no name for a schedule; expected lower-case letters, digits "
                     "and hyphens, such as \"my-1f1b\""));
  }
  if (name == "auto") {
    return absl::AlreadyExistsError(
        "'auto' is the search for the best schedule; give the new one another name");
  }
  const std::pair<const char*, const char*> texts[] = {
      {"summary", entry.summary}, {"needs", entry.needs},     {"bubble", entry.bubble},
      {"memory", entry.memory},   {"weights", entry.weights}, {"source", entry.source}};
  for (const auto& [what, text] : texts) {
    if (text == nullptr || *text == '\0') {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule '", name, "': `", what, "` is empty; it is shown to people"));
    }
  }
  if (entry.generate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", name, "' has no `generate`, the function that makes its table"));
  }
  if (entry.default_chunks < 1 || entry.chunk_step < 0 || entry.copies < 1 || entry.copies > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", name, "': default_chunks ", entry.default_chunks, ", chunk_step ",
        entry.chunk_step, ", copies ", entry.copies,
        "; expected at least 1 chunk, a step of at least 0, and 1 or 2 copies of the model"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const CatalogueEntry> Catalogue() { return TheTable().entries(); }

absl::Status RegisterSchedule(const CatalogueEntry& entry) {
  if (absl::Status sound = CheckEntry(entry); !sound.ok()) return sound;
  return TheTable().Add(entry);
}

absl::StatusOr<const CatalogueEntry*> FindSchedule(absl::string_view name,
                                                   absl::Span<const char* const> others) {
  for (const CatalogueEntry& entry : Catalogue()) {
    if (name == entry.name) return &entry;
  }
  std::vector<std::string> names(others.begin(), others.end());
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
