#include "pipeline/run/bit_flip.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "models/failpoints/failpoints.h"

namespace sluice {
namespace {

// As the stream's work so far leaves it.
void MaybeFlip(const RankState& state, const char* what, void* value) {
  if (value == nullptr) return;
  if (HitFailpoint(absl::StrCat("rank", state.world_rank(), "-", what), "flip").error == 0) return;
  Device& device = state.device();
  std::byte flipped{};
  device.Copy(state.stream(), &flipped, value, 1);
  // A device that is lost says so where the pass ends.
  if (!device.Synchronize(state.stream(), Instant::InfiniteFuture()).ok()) return;
  flipped ^= std::byte{1};
  device.Copy(state.stream(), value, &flipped, 1);
}

}  // namespace

void MaybeFlipResult(const RankState& state, Step step, const LayerDecl& decl,
                     const LayerCall& call) {
  if constexpr (!kHasFailpoints) return;
  switch (step) {
    case Step::kForward:
      MaybeFlip(state, "forward", decl.output_shape.empty() ? call.loss : call.output);
      return;
    case Step::kBackwardInput:
      MaybeFlip(state, "input", call.input_grad);
      return;
    case Step::kBackwardWeight:
      for (size_t p = 0; p < decl.parameters.size(); ++p) {
        if (decl.parameters[p].frozen) continue;
        MaybeFlip(state, "gradient", call.gradients[p]);
        return;
      }
      return;
    default:
      return;
  }
}

void MaybeFlipInput(const RankState& state, Step step, const LayerDecl& decl,
                    const LayerCall& call) {
  if constexpr (!kHasFailpoints) return;
  if (step != Step::kForward || decl.input_dtype == DType::kInt32) return;
  MaybeFlip(state, "received", const_cast<void*>(call.input));
}

void MaybeFlipWeight(const RankState& state, const char* what, void* weight) {
  if constexpr (kHasFailpoints) MaybeFlip(state, what, weight);
}

}  // namespace sluice
