#include "schedules/generators/v_slots.h"

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

// The input gradients of a rank, in order of time.
std::vector<int> InputGrads(const VRank& rank) {
  std::vector<int> slots(rank[kUpInputGrad].size() + rank[kDownInputGrad].size());
  std::merge(rank[kUpInputGrad].begin(), rank[kUpInputGrad].end(), rank[kDownInputGrad].begin(),
             rank[kDownInputGrad].end(), slots.begin());
  return slots;
}

}  // namespace

std::vector<VElement> InOrder(const VSlots& slots) {
  std::vector<VElement> elements;
  for (int rank = 0; rank < static_cast<int>(slots.size()); ++rank) {
    for (int kind = 0; kind < kVKinds; ++kind) {
      for (int i = 0; i < static_cast<int>(slots[rank][kind].size()); ++i) {
        elements.push_back({slots[rank][kind][i], rank, kind, i});
      }
    }
  }
  std::sort(elements.begin(), elements.end(), [](const VElement& a, const VElement& b) {
    return std::tie(a.slot, a.rank, a.kind) < std::tie(b.slot, b.rank, b.kind);
  });
  return elements;
}

int LastInput(const VSlots& slots, const VElement& element) {
  const auto& [slot, rank, kind, index] = element;
  const VRank& row = slots[rank];
  int last = -1;
  if (index > 0) last = row[kind][index - 1];
  if (kind == kAnyWeightGrad) return std::max(last, InputGrads(row)[index]);
  const bool from_above = kind == kDownForward || kind == kUpInputGrad;
  const int neighbour = from_above ? rank - 1 : rank + 1;
  if (neighbour >= 0 && neighbour < static_cast<int>(slots.size())) {
    last = std::max(last, slots[neighbour][kind][index]);
  }
  if (kind > 0) last = std::max(last, row[kind - 1][index]);
  return last;
}

void PutWeightGrads(VRank& rank) {
  rank[kAnyWeightGrad].clear();
  std::vector<int> taken;
  for (int kind = 0; kind < kAnyWeightGrad; ++kind) {
    taken.insert(taken.end(), rank[kind].begin(), rank[kind].end());
  }
  std::sort(taken.begin(), taken.end());
  const std::vector<int> made = InputGrads(rank);
  size_t next_taken = 0;
  int slot = 0;
  for (const int input_grad : made) {
    slot = std::max(slot, input_grad + 1);
    while (next_taken < taken.size() && taken[next_taken] < slot) ++next_taken;
    for (; next_taken < taken.size() && taken[next_taken] == slot; ++next_taken) ++slot;
    rank[kAnyWeightGrad].push_back(slot++);
  }
}

void Squeeze(VSlots& slots) {
  std::vector<int> free_from(slots.size(), 0);
  for (const VElement& element : InOrder(slots)) {
    // W follow their input gradients on the rank itself.
    const int ready = element.kind == kAnyWeightGrad ? 0 : LastInput(slots, element) + 1;
    const int start = std::max(free_from[element.rank], ready);
    slots[element.rank][element.kind][element.index] = start;
    free_from[element.rank] = start + 1;
  }
}

}  // namespace sluice
