#ifndef SLUICE_SCHEDULES_GENERATORS_V_SLOTS_H_
#define SLUICE_SCHEDULES_GENERATORS_V_SLOTS_H_

#include <array>
#include <vector>

// V-Half and V-Min while they are built: every action takes one slot of time.
namespace sluice {

// The order in which a micro-batch visits a rank of a V: the forward of the stage on the way down,
// the forward of the stage on the way up, then their input gradients in reverse order. W are
// counted per rank: the k-th W belongs to the k-th input gradient.
enum VKind { kDownForward, kUpForward, kUpInputGrad, kDownInputGrad, kAnyWeightGrad, kVKinds };

// [kind][index] the slot in which each action of one rank starts. The index is a micro-batch,
// except for W.
using VRank = std::array<std::vector<int>, kVKinds>;
using VSlots = std::vector<VRank>;  // [rank]

struct VElement {
  int slot;
  int rank;
  int kind;
  int index;
};
// All actions ordered by slot, then rank, then kind.
std::vector<VElement> InOrder(const VSlots& slots);

// The slot after which `element` can start: that of the last action that it depends on.
int LastInput(const VSlots& slots, const VElement& element);

// Puts W, in the order of their input gradients, into the slots that are free.
void PutWeightGrads(VRank& rank);
// Keeps the order on every rank and starts each action as early as that order allows.
void Squeeze(VSlots& slots);
// Moves actions of the warm-up (only if W are placed) and of the cool-down to earlier free slots,
// as long as no rank then holds more than the rank with the highest peak does now. Where W are not
// placed, each one counts as done in the first free slot.
void MoveEarlier(VSlots& slots);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_V_SLOTS_H_
