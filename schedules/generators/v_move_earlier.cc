#include <algorithm>
#include <cstdint>

#include "schedules/generators/v_slots.h"

namespace sluice {
namespace {

constexpr int8_t kFree = -1;

// The actions of one rank slot by slot, and how many activations it holds after each slot.
class RankSlots {
 public:
  RankSlots(const VRank& rank, bool with_weight_grads) : explicit_(with_weight_grads) {
    int last = 0;
    for (const auto& kind : rank) {
      if (!kind.empty()) last = std::max(last, kind.back());
    }
    kinds_.assign(last + 1, kFree);
    for (int kind = 0; kind < kVKinds; ++kind) {
      for (const int slot : rank[kind]) kinds_[slot] = static_cast<int8_t>(kind);
    }
    // Where W are not placed, the last of them run after everything else and do not raise the peak.
    held_.assign(kinds_.size(), 0);
    waiting_.assign(kinds_.size(), 0);
    peak_ = Recount(0, kinds_.size());
  }

  int peak() const { return peak_; }
  bool Free(int slot) const { return kinds_[slot] == kFree; }

  // Moves the action at `from` to the free slot `to`, if the rank then still holds at most `limit`.
  bool TryMove(int from, int to, int limit) {
    Swap(from, to);
    const auto [first, last] = std::minmax(from, to);
    if (Fits(first, last, limit)) {
      Recount(first, last);
      return true;
    }
    Swap(from, to);
    return false;
  }

 private:
  struct State {
    int held = 0;
    int waiting = 0;  // W that can run
  };

  void Swap(int a, int b) { std::swap(kinds_[a], kinds_[b]); }

  State Before(size_t slot) const {
    return slot == 0 ? State{} : State{held_[slot - 1], waiting_[slot - 1]};
  }

  void Step(size_t slot, State& state) const {
    switch (kinds_[slot]) {
      case kDownForward:
      case kUpForward:
        ++state.held;
        break;
      case kUpInputGrad:
      case kDownInputGrad:
        ++state.waiting;
        break;
      case kAnyWeightGrad:
        --state.held;
        break;
      default:
        if (explicit_ || state.waiting == 0) break;
        --state.waiting;
        --state.held;
    }
  }

  bool AsBefore(size_t slot, const State& state) const {
    return state.held == held_[slot] && state.waiting == waiting_[slot];
  }

  // Only slots first..last have changed: after them, once the state is the old one, it stays so.
  bool Fits(size_t first, size_t last, int limit) const {
    State state = Before(first);
    for (size_t slot = first; slot < kinds_.size(); ++slot) {
      Step(slot, state);
      if (state.held > limit) return false;
      if (slot >= last && AsBefore(slot, state)) return true;
    }
    return true;
  }

  int Recount(size_t first, size_t last) {
    State state = Before(first);
    int peak = 0;
    for (size_t slot = first; slot < kinds_.size(); ++slot) {
      Step(slot, state);
      if (slot >= last && AsBefore(slot, state)) break;
      held_[slot] = state.held;
      waiting_[slot] = state.waiting;
      peak = std::max(peak, state.held);
    }
    return peak;
  }

  const bool explicit_;
  std::vector<int8_t> kinds_;
  std::vector<int> held_;     // [slot] activations held after it
  std::vector<int> waiting_;  // [slot] W that can run after it, where W are not placed
  int peak_ = 0;
};

// Where the steady state lies in a list of all actions: from the first backward that ends a micro-
// batch to the last forward that starts one.
struct Steady {
  size_t begin;
  size_t end;
};

Steady FindSteady(const std::vector<VElement>& elements, int micro_batches) {
  const auto begin = std::find_if(elements.begin(), elements.end(), [](const VElement& e) {
    return e.kind == kDownInputGrad && e.rank == 0;
  });
  const auto end = std::find_if(begin, elements.end(), [&](const VElement& e) {
    return e.kind == kDownForward && e.index == micro_batches - 1;
  });
  return {static_cast<size_t>(begin - elements.begin()),
          static_cast<size_t>(end - elements.begin())};
}

}  // namespace

void MoveEarlier(VSlots& slots) {
  const bool with_weight_grads = !slots[0][kAnyWeightGrad].empty();
  std::vector<RankSlots> ranks;
  int limit = 0;
  for (const VRank& rank : slots) {
    ranks.emplace_back(rank, with_weight_grads);
    limit = std::max(limit, ranks.back().peak());
  }
  const std::vector<VElement> elements = InOrder(slots);
  const Steady steady = FindSteady(elements, static_cast<int>(slots[0][kDownForward].size()));
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool warm_up = i < steady.begin && with_weight_grads;
    if (!warm_up && i <= steady.end) continue;
    const VElement& element = elements[i];
    for (int to = LastInput(slots, element) + 1; to < element.slot; ++to) {
      if (!ranks[element.rank].Free(to)) continue;
      if (!ranks[element.rank].TryMove(element.slot, to, limit)) continue;
      slots[element.rank][element.kind][element.index] = to;
      break;
    }
  }
}

}  // namespace sluice
