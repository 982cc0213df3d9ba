#include "pipeline/state/gradient_exchange.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "pipeline/compile/replicas/tied_parameters.h"

namespace sluice {
namespace {

// Null where the rank has no such view, or the parameter is frozen and has no gradient.
const ParameterView* FindView(const RankState& state, int global_index, int model_copy) {
  for (const ParameterView& view : state.parameters()) {
    if (view.global_index == global_index && view.model_copy == model_copy) {
      return view.decl->frozen ? nullptr : &view;
    }
  }
  return nullptr;
}

// Swaps the two gradients between their ranks; `theirs` receives the other rank's.
absl::Status Swap(Communicator& communicator, int peer, const ParameterView& mine, float* theirs,
                  absl::Duration timeout) {
  const size_t bytes = static_cast<size_t>(mine.count) * sizeof(float);
  Ticket sent = 0;
  Ticket received = 0;
  absl::Status status = communicator.PostReceive(peer, theirs, bytes, &received);
  if (status.ok()) status = communicator.PostSend(peer, mine.gradient, bytes, &sent);
  if (status.ok()) status = communicator.WaitReceive(peer, received, Instant::Now() + timeout);
  if (status.ok()) status = communicator.WaitSend(peer, sent, Instant::Now() + timeout);
  return status;
}

// Adds to `mine` the gradient of the same tensor on `peer`, and there the other way round; without
// `add`, only there.
absl::Status AddFrom(RankState& state, Communicator& communicator, int peer,
                     const ParameterView& mine, absl::Duration timeout, bool add = true) {
  if (mine.count == 0) return absl::OkStatus();  // nor has the peer a slice
  auto* theirs = state.arena().at<float>(state.step_region());
  absl::Status status = Swap(communicator, peer, mine, theirs, timeout);
  const AddedTensor sum = {.n = mine.count, .values = theirs, .sums = mine.gradient};
  if (status.ok() && add) state.kernels().accumulate(state.stream(), {&sum, 1}, true);
  return status;
}

// `mine` is one of the pair.
absl::Status SwapTied(RankState& state, Communicator& communicator, const TiedPair& pair,
                      const ParameterView& mine, absl::Duration timeout) {
  const std::vector<std::pair<int, int>> swaps = TiedSwaps(state.plan(), pair);
  const int self = communicator.rank();
  const bool original = mine.global_index == pair.original;
  const auto own = [&](size_t i) { return original ? swaps[i].first : swaps[i].second; };
  size_t left = 0;
  for (size_t i = 0; i < swaps.size(); ++i) left += own(i) == self ? 1 : 0;
  for (size_t i = 0; i < swaps.size(); ++i) {
    if (own(i) != self) continue;
    const int peer = original ? swaps[i].second : swaps[i].first;
    absl::Status status = AddFrom(state, communicator, peer, mine, timeout, --left == 0);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Both on this rank.
void AddBoth(const RankState& state, const ParameterView& first, const ParameterView& second) {
  const Kernels& kernels = state.kernels();
  const AddedTensor to_first = {first.count, second.gradient, first.gradient};
  kernels.accumulate(state.stream(), {&to_first, 1}, true);
  if (second.shared) return;  // the first one's update is its own
  const AddedTensor to_second = {first.count, first.gradient, second.gradient};
  kernels.accumulate(state.stream(), {&to_second, 1}, false);
}

}  // namespace

absl::Status ExchangeCopyGradients(RankState& state, Communicator& communicator,
                                   absl::Duration timeout) {
  const RunPlan& plan = state.plan();
  const Placement& placement = plan.lowered.placement;
  if (placement.copies() == 1) return absl::OkStatus();
  // In the order of the model on every rank, so that the two ends of a pair meet.
  const auto parameters = static_cast<int>(CanonicalParameters(plan).size());
  for (int index = 0; index < parameters; ++index) {
    const ParameterView* first = FindView(state, index, 0);
    const ParameterView* second = FindView(state, index, 1);
    if (first == nullptr && second == nullptr) continue;
    if (first != nullptr && second != nullptr) {
      AddBoth(state, *first, *second);
      continue;
    }
    const ParameterView& mine = first != nullptr ? *first : *second;
    const int other = (mine.stage + placement.model_stages()) % placement.stages();
    absl::Status status = AddFrom(state, communicator, placement.rank(other), mine, timeout);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ExchangeTiedGradients(RankState& state, Communicator& communicator,
                                   absl::Duration timeout) {
  for (const TiedPair& pair : TiedPairs(state.plan())) {
    const ParameterView* original = FindView(state, pair.original, pair.model_copy);
    const ParameterView* copy = FindView(state, pair.copy, pair.model_copy);
    if (original == nullptr && copy == nullptr) continue;
    if (original != nullptr && copy != nullptr) {
      AddBoth(state, *original, *copy);
      continue;
    }
    const ParameterView& mine = original != nullptr ? *original : *copy;
    if (absl::Status status = SwapTied(state, communicator, pair, mine, timeout); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
