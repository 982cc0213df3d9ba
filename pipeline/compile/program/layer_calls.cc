#include "pipeline/compile/program/layer_calls.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

bool WrittenByForward(const TensorDecl& tensor) {
  return tensor.lifetime == Lifetime::kForwardToInputGrad ||
         tensor.lifetime == Lifetime::kForwardToWeightGrad;
}

bool ReadByWeightGrad(const TensorDecl& tensor) {
  return tensor.lifetime == Lifetime::kForwardToWeightGrad ||
         tensor.lifetime == Lifetime::kInputGradToWeightGrad;
}

}  // namespace

int64_t InputBytes(const LayerDecl& decl) {
  return ElementCount(decl.input_shape) * SizeOf(decl.input_dtype);
}

int64_t OutputBytes(const LayerDecl& decl) {
  return ElementCount(decl.output_shape) * SizeOf(decl.output_dtype);
}

LayerCalls::LayerCalls(std::vector<const LayerDecl*> layers, int micro_batches,
                       ProgramBuilder* builder)
    : layers_(std::move(layers)),
      micro_batches_(static_cast<size_t>(micro_batches)),
      builder_(*builder),
      frames_(layers_.size() * micro_batches_) {}

void LayerCalls::SetInput(const CallPlace& place, BufferId input, const Samples& samples) {
  At(place).input = input;
  At(place).samples = samples;
}

BufferId LayerCalls::Forward(const CallPlace& place) {
  return ForwardCall(place, /*rebuild=*/false);
}

void LayerCalls::Rebuild(const CallPlace& place) {
  if (place.recompute == Recompute::kFull) ForwardCall(place, /*rebuild=*/true);
  if (place.recompute == Recompute::kSelective) Restore(place);
}

void LayerCalls::Restore(const CallPlace& place) {
  const std::vector<TensorDecl>& tensors = Decl(place).tensors;
  if (std::none_of(tensors.begin(), tensors.end(),
                   [](const TensorDecl& t) { return t.restorable; }))
    return;
  Frame& frame = At(place);
  CallBuffers call{.layer = place.layer,
                   .input = frame.input,
                   .starts = frame.samples.starts,
                   .tensors = frame.tensors,
                   .slot = place.slot};
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].restorable)
      frame.tensors[t] = call.tensors[t] = builder_.New(tensors[t].bytes());
    if (tensors[t].lifetime == Lifetime::kForwardScratch)
      call.tensors[t] = builder_.New(tensors[t].bytes());
  }
  builder_.AppendCall(Step::kRestore, std::move(call), place.micro_batch);
}

// `rebuild`: run again for the backward that follows.
BufferId LayerCalls::ForwardCall(const CallPlace& place, bool rebuild) {
  const LayerDecl& decl = Decl(place);
  Frame& frame = At(place);
  CallBuffers call{.layer = place.layer,
                   .input = frame.input,
                   .targets = frame.samples.targets,
                   .starts = frame.samples.starts,
                   .slot = place.slot};
  frame.tensors.assign(decl.tensors.size(), kNoBuffer);
  for (size_t t = 0; t < decl.tensors.size(); ++t) {
    const TensorDecl& tensor = decl.tensors[t];
    const bool needed = WrittenByForward(tensor) || tensor.lifetime == Lifetime::kForwardScratch;
    call.tensors.push_back(needed ? builder_.New(tensor.bytes()) : kNoBuffer);
    const bool dropped = place.recompute == Recompute::kFull ||
                         (place.recompute == Recompute::kSelective && tensor.restorable);
    if (WrittenByForward(tensor) && (rebuild || !dropped)) frame.tensors[t] = call.tensors[t];
  }
  // The second time nobody needs the output, and a layer without one skips what only that takes.
  if (!rebuild && !decl.output_shape.empty()) call.output = builder_.New(OutputBytes(decl));
  const BufferId output = call.output;
  builder_.AppendCall(Step::kForward, std::move(call), place.micro_batch);
  return output;
}

BufferId LayerCalls::InputGrad(const CallPlace& place, BufferId output_grad) {
  const LayerDecl& decl = Decl(place);
  Frame& frame = At(place);
  frame.output_grad = output_grad;
  CallBuffers call{.layer = place.layer,
                   .output_grad = frame.output_grad,
                   .starts = frame.samples.starts,
                   .tensors = frame.tensors,
                   .slot = place.slot};
  if (decl.input_use != LastUse::kForward) call.input = frame.input;
  for (size_t t = 0; t < decl.tensors.size(); ++t) {
    const TensorDecl& tensor = decl.tensors[t];
    const bool kept = tensor.lifetime == Lifetime::kInputGradToWeightGrad;
    if (kept || tensor.lifetime == Lifetime::kInputGradScratch)
      call.tensors[t] = builder_.New(tensor.bytes());
    if (kept) frame.tensors[t] = call.tensors[t];
  }
  if (decl.has_input_grad) call.input_grad = builder_.New(InputBytes(decl));
  const BufferId gradient = call.input_grad;
  builder_.AppendCall(Step::kBackwardInput, std::move(call), place.micro_batch);
  return gradient;
}

void LayerCalls::WeightGrad(const CallPlace& place) {
  const LayerDecl& decl = Decl(place);
  const auto trained = [](const ParameterDecl& parameter) { return !parameter.frozen; };
  if (std::none_of(decl.parameters.begin(), decl.parameters.end(), trained)) return;
  const Frame& frame = At(place);
  CallBuffers call{.layer = place.layer,
                   .starts = frame.samples.starts,
                   .slot = place.slot,
                   .second_gradient = place.second_gradient,
                   .accumulate = place.accumulate,
                   .gradients = place.gradients};
  if (decl.input_use == LastUse::kWeightGrad) call.input = frame.input;
  if (decl.output_grad_use == LastUse::kWeightGrad) call.output_grad = frame.output_grad;
  if (decl.targets_use == LastUse::kWeightGrad) call.targets = frame.samples.targets;
  for (size_t t = 0; t < decl.tensors.size(); ++t) {
    const TensorDecl& tensor = decl.tensors[t];
    const bool scratch = tensor.lifetime == Lifetime::kWeightGradScratch;
    call.tensors.push_back(ReadByWeightGrad(tensor) ? frame.tensors[t]
                           : scratch                ? builder_.New(tensor.bytes())
                                                    : kNoBuffer);
  }
  builder_.AppendCall(Step::kBackwardWeight, std::move(call), place.micro_batch);
}

}  // namespace sluice
