#ifndef SLUICE_SCHEDULES_WEIGHT_VERSIONS_H_
#define SLUICE_SCHEDULES_WEIGHT_VERSIONS_H_

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"

// Which weights each micro-batch uses when a timetable updates them without a flush. Version u of a
// stage's weights is what `u` updates (OPTIMIZER_STEP) of that stage have made of the initial ones.
namespace sluice {

// How many micro-batches an update of `timetable` includes: all of them, one, or `update_every`.
inline int MicroBatchesPerUpdate(const Timetable& timetable) {
  switch (timetable.updates) {
    case WeightUpdates::kFlush:
      return timetable.micro_batches;
    case WeightUpdates::kEachMicroBatch:
      return 1;
    case WeightUpdates::kDoubleBuffered:
      return timetable.update_every;
  }
  return timetable.micro_batches;
}

// The update, counted from 0, that includes the gradient of `micro_batch`.
inline int UpdateOf(const Timetable& timetable, int micro_batch) {
  return micro_batch / MicroBatchesPerUpdate(timetable);
}

// The version that `micro_batch` uses in its forward and its backward at a stage whose row holds
// `updates_before` updates before that forward.
inline int VersionOf(const Timetable& timetable, int micro_batch, int updates_before) {
  if (timetable.updates == WeightUpdates::kFlush) return 0;
  if (timetable.updates == WeightUpdates::kEachMicroBatch) return updates_before;
  return std::max(UpdateOf(timetable, micro_batch) - 1, 0);
}

struct StageVersions {
  // Most versions that must be kept at the same time: those that micro-batches in flight use, that
  // of the next forward where it exists already, and the newest, to which the next update is added.
  int kept = 1;
  // [micro_batch] the version its forward and backward use.
  std::vector<int> version;
  // [micro_batch] updates between that version and the one its gradient is added to: 0 means that
  // it is trained as without a pipeline.
  std::vector<int> staleness;
  int max_staleness = 0;
  double mean_staleness = 0;
};

// [stage]. PipeDream keeps at most p - s versions at stage s of p (Harlap et al., PipeDream, 2018,
// section 3.3), and its staleness there is p - s - 1; PipeDream-2BW keeps 2 everywhere, its
// staleness is 1 (Narayanan et al., ICML 2021, section 3.1); a synchronous table keeps 1.
// InvalidArgument, with the defects, when the table is not sound.
absl::StatusOr<std::vector<StageVersions>> FindWeightVersions(const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_WEIGHT_VERSIONS_H_
