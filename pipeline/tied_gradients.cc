#include <cstring>
#include <string>
#include <vector>

#include "pipeline/memory_plan.h"
#include "pipeline/optimizer.h"
#include "pipeline/tied_parameters.h"

namespace sluice {
namespace {

const ParameterView* FindView(const RankState& state, int global_index) {
  for (const ParameterView& view : state.parameters()) {
    if (view.global_index == global_index) return &view;
  }
  return nullptr;
}

// Swaps the two gradients between their ranks; `theirs` receives the other rank's.
absl::Status Swap(Communicator& communicator, int peer, const ParameterView& mine, float* theirs,
                  absl::Duration timeout) {
  const size_t bytes = static_cast<size_t>(mine.elements) * sizeof(float);
  Ticket sent = 0;
  Ticket received = 0;
  absl::Status status = communicator.PostReceive(peer, theirs, bytes, &received);
  if (status.ok()) status = communicator.PostSend(peer, mine.gradient, bytes, &sent);
  if (status.ok()) status = communicator.WaitReceive(peer, received, absl::Now() + timeout);
  if (status.ok()) status = communicator.WaitSend(peer, sent, absl::Now() + timeout);
  return status;
}

}  // namespace

absl::Status ExchangeTiedGradients(RankState& state, Communicator& communicator,
                                   absl::Duration timeout) {
  const Kernels& kernels = CpuKernels();
  for (const TiedPair& pair : TiedPairs(state.plan())) {
    const ParameterView* original = FindView(state, pair.original);
    const ParameterView* copy = FindView(state, pair.copy);
    if (original == nullptr && copy == nullptr) continue;
    const ParameterView& mine = original != nullptr ? *original : *copy;
    if (original != nullptr && copy != nullptr) {
      kernels.accumulate({}, mine.elements, copy->gradient, original->gradient, true);
      kernels.accumulate({}, mine.elements, original->gradient, copy->gradient, false);
      continue;
    }
    auto* theirs = state.arena().at<float>(state.step_region());
    const int peer = original != nullptr ? pair.copy_rank : pair.original_rank;
    if (absl::Status status = Swap(communicator, peer, mine, theirs, timeout); !status.ok())
      return status;
    // A sum of two numbers is the same in either order, so both ranks get the same bits.
    kernels.accumulate({}, mine.elements, theirs, mine.gradient, true);
  }
  return absl::OkStatus();
}

}  // namespace sluice
