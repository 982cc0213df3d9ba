#ifndef SLUICE_SCHEDULES_WEIGHT_VERSIONS_H_
#define SLUICE_SCHEDULES_WEIGHT_VERSIONS_H_

#include <algorithm>
#include <vector>

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

// Where the versions of one stage's weights lie while an asynchronous timetable runs. Versions that
// are needed at the same time lie in different slots, and there are no more slots than versions are
// needed at some time: at most p - s at stage s of p of PipeDream (Harlap et al., PipeDream, 2018,
// section 3.3), and 2 of PipeDream-2BW (Narayanan et al., ICML 2021, section 3.1).
struct WeightSlots {
  int count = 1;
  std::vector<int> version;          // [micro-batch]: the one that its F, B, I and W read
  std::vector<int> slot_of_version;  // [version]

  int slot(int v) const { return slot_of_version[static_cast<size_t>(v)]; }
  int SlotOf(int micro_batch) const { return slot(version[static_cast<size_t>(micro_batch)]); }
};

// By VersionOf, for a sound table. A synchronous table has one slot, and only version 0.
WeightSlots SlotsOf(const Timetable& table, int stage);

// How old the weights behind a gradient are when it is applied: updates of the stage between the
// version that the micro-batch computed with and the one that its gradient changes. 0 means that it
// is trained as without a pipeline. At stage s of p, PipeDream has p - s - 1, and PipeDream-2BW 1.
struct Staleness {
  int max = 0;      // over stages
  double mean = 0;  // likewise
};

// [micro-batch] of an asynchronous table; empty for a synchronous one.
std::vector<Staleness> StalenessOf(const Timetable& table);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_WEIGHT_VERSIONS_H_
