#ifndef SLUICE_SCHEDULES_GENERATORS_V_SLOTS_H_
#define SLUICE_SCHEDULES_GENERATORS_V_SLOTS_H_

#include <array>
#include <vector>

// V-Half and V-Min while they are built: every action takes one slot of time.
namespace sluice {

// The order in which a micro-batch visits a rank of a V: forward of the stage on the way down and
// of the one on the way up, then their input gradients, the other way round. W are counted by rank:
// the k-th W belongs to the k-th input gradient.
enum VKind { kDownForward, kUpForward, kUpInputGrad, kDownInputGrad, kAnyWeightGrad, kVKinds };

// When each action of one rank starts: [kind][index]. An index is a micro-batch, but for W.
using VRank = std::array<std::vector<int>, kVKinds>;
using VSlots = std::vector<VRank>;  // [rank]

struct VElement {
  int slot;
  int rank;
  int kind;
  int index;
};
// All actions in the order of time, then rank, then kind.
std::vector<VElement> InOrder(const VSlots& slots);

// The slot after which `element` can start: that of the last action that it needs.
int LastInput(const VSlots& slots, const VElement& element);

// Puts W, in the order of their input gradients, into the slots that are free.
void PutWeightGrads(VRank& rank);
// Keeps the order on every rank and starts each action as early as that allows.
void Squeeze(VSlots& slots);
// Moves actions of the warm-up (with W placed only) and of the cool-down to earlier free slots as
// far as no rank then holds more than the fullest one does now. Without W placed, each counts as
// done in the first free slot.
void MoveEarlier(VSlots& slots);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_V_SLOTS_H_
