#ifndef SLUICE_SCHEDULES_GENERATORS_CATALOGUE_H_
#define SLUICE_SCHEDULES_GENERATORS_CATALOGUE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedules/timetable.h"

namespace sluice {

struct StageCosts;

// What a generator is asked for.
struct ScheduleRequest {
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;
  // Interleaved schedules: micro-batches that travel together through one chunk before the next
  // chunk starts (Megatron-LM's microbatch group size); 0 lets the schedule choose, about `ranks`.
  int group = 0;
  // PipeDream-2BW: micro-batches that an update includes; 0 means `ranks`.
  int update_every = 0;
  // For schedules that depend on costs (zb-2p): what actions cost, null for F = I = W = 1; and how
  // many activations a rank may hold, 0 for the limit of the paper (in bytes, where costs have
  // them). Other schedules ignore both.
  const StageCosts* costs = nullptr;
  int memory_limit = 0;
};

// One schedule. The catalogue is a table of these: adding a schedule is adding a generator and a row
// (here), or calling RegisterSchedule (from a program that uses the library).
struct CatalogueEntry {
  const char* name;     // as on the command line: "1f1b"
  const char* summary;  // one line for people
  const char* needs;    // what it asks of the request: "v = 1", "m a multiple of the group"
  const char* bubble;   // closed form for equal stages: "(p-1)/(m+p-1)"
  const char* memory;   // peak (stage, micro-batch) activations of rank r: "min(m, p-r)"; "<="
                        // where it is an upper bound
  const char* weights = "once";  // how many times a rank keeps the weights of its stages
  const char* source;            // paper, section
  bool splits_backward;          // uses I and W instead of B
  int default_chunks;
  // Takes any multiple of this many chunks; 0: default_chunks only.
  int chunk_step = 0;
  int copies = 1;                                 // copies of the model
  bool takes_group = false;                       // honours ScheduleRequest::group
  bool takes_costs = false;                       // honours costs and memory_limit
  WeightUpdates updates = WeightUpdates::kFlush;  // kFlush: synchronous
  // Requires a request that passed the entry's own checks; InvalidArgument says what was given and
  // what is needed.
  absl::StatusOr<Timetable> (*generate)(const ScheduleRequest& request);
};

// The published schedules, then those that this program has registered, in that order. What was
// returned stays valid; it does not grow.
absl::Span<const CatalogueEntry> Catalogue();
absl::Span<const CatalogueEntry> PublishedSchedules();
// Adds a schedule of the calling program's own: from then on whatever lists, generates, plans,
// trains or searches schedules knows it, as it knows the published ones. All strings of `entry` must
// outlive the program's last use of the catalogue (literals do). Any thread may call it.
// InvalidArgument where `entry` has no generator, no text for a field that is shown, counts that
// make no sense, or a name other than lower-case letters, digits and hyphens; AlreadyExists where
// the name is taken ("auto" is, by the search); ResourceExhausted after kMostRegistered schedules.
inline constexpr int kMostRegistered = 100;
absl::Status RegisterSchedule(const CatalogueEntry& entry);
// The entry called `name`; NotFound lists the names there are (the nearest first), and before names
// that are equally near those of `others`, which the caller takes, too.
absl::StatusOr<const CatalogueEntry*> FindSchedule(absl::string_view name,
                                                   absl::Span<const char* const> others = {});
// InvalidArgument for counts below 1, and for more stages or forwards than a timetable can have.
absl::Status CheckScheduleSize(const ScheduleRequest& request);
// FindSchedule + generate + ValidateTimetable. Every count must be at least 1.
absl::StatusOr<Timetable> GenerateSchedule(absl::string_view name, const ScheduleRequest& request);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_CATALOGUE_H_
