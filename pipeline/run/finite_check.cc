#include "pipeline/run/finite_check.h"

#include <cmath>

namespace sluice {

bool FiniteCheck::IsFinite(const double& loss) {
  return !state_.device().Synchronize(state_.stream(), Instant::InfiniteFuture()).ok() ||
         std::isfinite(loss);
}

bool FiniteCheck::IsFinite(DType dtype, int64_t count, const void* values) {
  state_.kernels().all_finite(state_.stream(), dtype, count, values, flag_);
  // A device that does not answer shows at the end of the pass.
  return !state_.device().Synchronize(state_.stream(), Instant::InfiniteFuture()).ok() || *flag_;
}

void FiniteCheck::Look(const Instruction& instruction, const LayerCall& call, const Action& action,
                       NonFinite* found) {
  if (found->where != NonFinite::Where::kNowhere) return;
  const int local = program_.calls[static_cast<size_t>(instruction.index)].layer;
  const int layer = program_.layers[static_cast<size_t>(local)];
  const LayerDecl& decl = state_.plan().layers[static_cast<size_t>(layer)];
  bool finite = true;
  NonFinite::Where where = NonFinite::Where::kNowhere;
  if (instruction.step == Step::kForward) {
    where = NonFinite::Where::kForward;
    if (call.output != nullptr) {
      finite = IsFinite(decl.output_dtype, ElementCount(decl.output_shape), call.output);
    } else if (call.loss != nullptr) {
      finite = IsFinite(*call.loss);
    }  // else it rebuilds what was looked at before
  } else if (instruction.step == Step::kBackwardInput && call.input_grad != nullptr) {
    where = NonFinite::Where::kInputGrad;
    finite = IsFinite(decl.input_dtype, ElementCount(decl.input_shape), call.input_grad);
  } else if (instruction.step == Step::kBackwardWeight) {
    where = NonFinite::Where::kWeightGrad;
    for (size_t p = 0; p < decl.parameters.size(); ++p) {
      finite = finite && (decl.parameters[p].frozen ||
                          IsFinite(DType::kFloat32, ElementCount(decl.parameters[p].shape),
                                   call.gradients[p]));
    }
  }
  if (finite) return;
  *found = {
      .where = where,
      .layer = layer,
      .stage = action.stage,
      .micro_batch = state_.plan().GlobalMicroBatch(state_.replica(), instruction.micro_batch)};
}

}  // namespace sluice
