#ifndef SLUICE_PARTITIONER_BOUNDS_STEP_SLOTS_H_
#define SLUICE_PARTITIONER_BOUNDS_STEP_SLOTS_H_

#include "partitioner/bounds/chain_counts.h"

namespace sluice {

// Duration slots: 0, then F, B, I and W of every stage.
enum Slot { kSlotForward, kSlotBackward, kSlotInputGrad, kSlotWeightGrad, kSlotKinds };

inline void CountSlot(int slot, ChainCounts* chain) {
  if (slot == 0) return;
  ChainCounts::Stage& stage = chain->stages[(slot - 1) / kSlotKinds];
  const int kind = (slot - 1) % kSlotKinds;
  if (kind == kSlotForward) ++stage.forward;
  if (kind == kSlotBackward || kind == kSlotInputGrad) ++stage.input_grad;
  if (kind == kSlotBackward || kind == kSlotWeightGrad) ++stage.weight_grad;
}

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_STEP_SLOTS_H_
