#include "pipeline/run/bit_flip.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "models/failpoints/failpoints.h"

namespace sluice {
namespace {

void MaybeFlip(int rank, const char* what, void* value) {
  if (value == nullptr) return;
  if (HitFailpoint(absl::StrCat("rank", rank, "-", what), "flip").error == 0) return;
  *static_cast<std::byte*>(value) ^= std::byte{1};
}

}  // namespace

void MaybeFlipResult(int rank, Step step, const LayerDecl& decl, const LayerCall& call) {
  if constexpr (!kHasFailpoints) return;
  switch (step) {
    case Step::kForward:
      MaybeFlip(rank, "forward", decl.output_shape.empty() ? call.loss : call.output);
      return;
    case Step::kBackwardInput:
      MaybeFlip(rank, "input", call.input_grad);
      return;
    case Step::kBackwardWeight:
      for (size_t p = 0; p < decl.parameters.size(); ++p) {
        if (decl.parameters[p].frozen) continue;
        MaybeFlip(rank, "gradient", call.gradients[p]);
        return;
      }
      return;
    default:
      return;
  }
}

void MaybeFlipInput(int rank, Step step, const LayerDecl& decl, const LayerCall& call) {
  if constexpr (!kHasFailpoints) return;
  if (step != Step::kForward || decl.input_dtype == DType::kInt32) return;
  MaybeFlip(rank, "received", const_cast<void*>(call.input));
}

void MaybeFlipWeight(int rank, const char* what, void* weight) {
  if constexpr (kHasFailpoints) MaybeFlip(rank, what, weight);
}

}  // namespace sluice
