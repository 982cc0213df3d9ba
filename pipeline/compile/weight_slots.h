#ifndef SLUICE_PIPELINE_COMPILE_WEIGHT_SLOTS_H_
#define SLUICE_PIPELINE_COMPILE_WEIGHT_SLOTS_H_

#include <vector>

#include "schedules/timetable.h"

namespace sluice {

// The versions of one stage's weights over an asynchronous timetable. Version v is what v updates
// have made of the weights at its start. Those that are needed at one time lie in different slots,
// and no more slots are used than versions are needed at some time.
struct WeightSlots {
  int count = 1;
  std::vector<int> version;          // [micro-batch]: the one that its F, B, I and W read
  std::vector<int> slot_of_version;  // [version]

  int slot(int v) const { return slot_of_version[static_cast<size_t>(v)]; }
  int SlotOf(int micro_batch) const { return slot(version[static_cast<size_t>(micro_batch)]); }
};

// By the rule of schedules/weight_versions.h. One slot, and version 0 alone, of a synchronous
// table.
WeightSlots SlotsOf(const Timetable& table, int stage);

// How old the weights behind a gradient are when it is applied: updates of the stage between the
// version that the micro-batch computed with and the one that its gradient changes.
struct Staleness {
  int max = 0;      // over stages
  double mean = 0;  // likewise
};

// For every micro-batch of an asynchronous table; empty of a synchronous one.
std::vector<Staleness> StalenessOf(const Timetable& table);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_WEIGHT_SLOTS_H_
