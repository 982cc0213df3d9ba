#include "pipeline/run/bound_program.h"

#include <cstddef>

#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {

BoundProgram::BoundProgram(RankState& state, const RankProgram& program,
                           const std::vector<int64_t>& offsets)
    : state_(state), program_(program), offsets_(offsets) {}

void BoundProgram::Bind(absl::Span<double> losses, absl::Span<int64_t> correct) {
  BindCalls(losses, correct);
  BindReductions();
}

void* BoundProgram::Address(BufferId buffer) const {
  return buffer == kNoBuffer ? nullptr : state_.arena().at(offsets_[static_cast<size_t>(buffer)]);
}

void BoundProgram::BindCalls(absl::Span<double> losses, absl::Span<int64_t> correct) {
  size_t tensor_count = 0;
  for (const CallBuffers& call : program_.calls) tensor_count += call.tensors.size();
  tensors_.reserve(tensor_count);  // the spans below must stay valid
  for (const CallBuffers& buffers : program_.calls) {
    LayerCall call = state_.CallOf(buffers.layer, buffers.slot, buffers.second_gradient);
    BindGradients(buffers, &call);
    call.accumulate = buffers.accumulate;
    call.input = Address(buffers.input);
    call.output = Address(buffers.output);
    call.output_grad = Address(buffers.output_grad);
    call.input_grad = Address(buffers.input_grad);
    call.targets = static_cast<const int32_t*>(Address(buffers.targets));
    call.starts = static_cast<const int32_t*>(Address(buffers.starts));
    const size_t first = tensors_.size();
    for (BufferId id : buffers.tensors) tensors_.push_back(Address(id));
    call.tensors = absl::MakeConstSpan(tensors_).subspan(first);
    calls_.push_back(call);
  }
  for (const Instruction& instruction : program_.instructions) {
    if (instruction.step != Step::kForward) continue;
    LayerCall& call = calls_[static_cast<size_t>(instruction.index)];
    if (call.targets == nullptr) continue;
    call.loss = &losses[static_cast<size_t>(instruction.micro_batch)];
    call.correct = &correct[static_cast<size_t>(instruction.micro_batch)];
  }
}

float* BoundProgram::GradientOf(const ParameterView& view, BufferId sharded, bool second) const {
  if (view.decl->frozen) return nullptr;
  if (sharded == kNoBuffer) return state_.WholeGradient(view, second);
  auto* at = static_cast<std::byte*>(Address(sharded));
  for (const ParameterView& before : state_.ParametersOf(view.local)) {
    if (before.global_index == view.global_index) break;
    at += AlignUp(TrainedElements(*before.decl) * SizeOf(DType::kFloat32));
  }
  return static_cast<float*>(static_cast<void*>(at));
}

void BoundProgram::BindGradients(const CallBuffers& buffers, LayerCall* call) {
  if (buffers.gradients == kNoBuffer) return;
  std::vector<float*>& gradients = layer_gradients_.emplace_back();
  for (const ParameterView& view : state_.ParametersOf(buffers.layer))
    gradients.push_back(GradientOf(view, buffers.gradients, false));
  call->gradients = gradients;
}

void BoundProgram::BindReductions() {
  const ShardBounds& shards = state_.plan().shards;
  for (const GradientReduction& reduction : program_.reductions) {
    Reduction& bound = reductions_.emplace_back();
    for (int local = reduction.first; local <= reduction.last; ++local) {
      for (const ParameterView& view : state_.ParametersOf(local)) {
        if (view.decl->frozen) continue;
        const std::vector<int64_t>& bounds = shards[static_cast<size_t>(view.global_index)];
        bound.sums.push_back(
            {.data = GradientOf(view, reduction.gradients, reduction.second_gradient),
             .sum = view.slice_gradient(),
             .add = !reduction.starts,
             .bounds = bounds});
        if (!reduction.gather) continue;
        bound.gathered.push_back({.data = view.gradient,
                                  .bounds = bounds,
                                  .element_bytes = static_cast<int64_t>(sizeof(float))});
      }
    }
  }
}

void MakeCall(Step step, Layer& layer, const LayerCall& call) {
  switch (step) {
    case Step::kForward:
      layer.Forward(call);
      break;
    case Step::kRestore:
      layer.Restore(call);
      break;
    case Step::kBackwardInput:
      layer.BackwardInput(call);
      break;
    default:
      layer.BackwardWeight(call);
      break;
  }
}

}  // namespace sluice
