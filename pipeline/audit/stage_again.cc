#include "pipeline/audit/stage_again.h"

#include <utility>

#include "pipeline/run/bit_flip.h"
#include "pipeline/run/bound_program.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<StageAgain>> StageAgain::Create(const RankState& own, int stage) {
  const RunPlan& plan = own.plan();
  std::unique_ptr<StageAgain> again(
      new StageAgain(own, plan.stage_audits[static_cast<size_t>(stage)]));
  for (const int layer : again->audit_.program.layers) {
    absl::StatusOr<std::unique_ptr<Layer>> made = plan.request.MakeLayerAt(layer);
    if (!made.ok()) return made.status();
    again->layers_.push_back(*std::move(made));
  }
  size_t parameters = 0;
  for (const std::vector<BufferId>& of_layer : again->audit_.weights) parameters += of_layer.size();
  absl::StatusOr<DeviceMemory> loss = own.device().AllocateShared(sizeof(Loss));
  if (!loss.ok()) return loss.status();
  again->loss_ = *std::move(loss);
  absl::Status status = again->digest_.Open(own, parameters);
  if (!status.ok()) return status;
  return again;
}

void* StageAgain::At(std::byte* memory, BufferId buffer) const {
  return buffer == kNoBuffer ? nullptr : memory + audit_.offsets[static_cast<size_t>(buffer)];
}

TensorPieces StageAgain::Places(std::byte* memory, bool accumulates) const {
  TensorPieces pieces;
  const auto add = [&](BufferId buffer) {
    if (buffer != kNoBuffer)
      pieces.Add(At(memory, buffer), audit_.program.buffers[static_cast<size_t>(buffer)].bytes);
  };
  for (const std::vector<BufferId>& of_layer : audit_.weights) {
    for (const BufferId buffer : of_layer) add(buffer);
  }
  for (const BufferId buffer : {audit_.input, audit_.starts, audit_.targets, audit_.output_grad})
    add(buffer);
  if (!accumulates) return pieces;
  for (const std::vector<BufferId>& of_layer : audit_.gradients) {
    for (const BufferId buffer : of_layer) add(buffer);
  }
  return pieces;
}

std::vector<StageAgain::Weight> StageAgain::Weights(std::byte* memory) const {
  std::vector<Weight> weights;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const std::vector<ParameterDecl>& decls = layers_[layer]->decl().parameters;
    for (size_t p = 0; p < decls.size(); ++p)
      weights.push_back({{At(memory, audit_.weights[layer][p]), decls[p].bytes()},
                         /*trained=*/!decls[p].frozen});
  }
  return weights;
}

LayerCall StageAgain::CallOf(std::byte* memory, size_t layer) {
  parameters_.clear();
  gradients_.clear();
  for (const BufferId buffer : audit_.weights[layer]) parameters_.push_back(At(memory, buffer));
  for (const BufferId buffer : audit_.gradients[layer])
    gradients_.push_back(static_cast<float*>(At(memory, buffer)));
  LayerCall call;
  call.stream = own_.stream();
  call.parameters = parameters_;
  call.gradients = gradients_;
  call.packed = At(memory, audit_.packed[layer]);
  return call;
}

absl::StatusOr<StageHashes> StageAgain::Compute(std::byte* memory, const AuditedCalls& calls,
                                                Progress* progress, Instant deadline) {
  digest_.Begin(layers_.size());
  std::vector<HashedTensor> weights;
  for (const Weight& weight : Weights(memory)) weights.push_back(weight.tensor);
  digest_.NoteWeights(weights);
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    layers_[layer]->Pack(CallOf(memory, layer));
  const auto bytes_of = [&](BufferId buffer) {
    return buffer == kNoBuffer ? 0 : audit_.program.buffers[static_cast<size_t>(buffer)].bytes;
  };
  digest_.NoteInput(At(memory, audit_.input), bytes_of(audit_.input));
  digest_.NoteOutputGrad(At(memory, audit_.output_grad), bytes_of(audit_.output_grad));
  for (const Instruction& instruction : audit_.program.instructions) {
    if (progress != nullptr) progress->Step();
    Call(memory, instruction, calls);
  }
  absl::Status status = own_.device().Synchronize(own_.stream(), deadline);
  if (!status.ok()) return status;
  return digest_.Hashes();
}

void StageAgain::Call(std::byte* memory, const Instruction& instruction,
                      const AuditedCalls& calls) {
  const CallBuffers& buffers = audit_.program.calls[static_cast<size_t>(instruction.index)];
  const auto at = static_cast<size_t>(buffers.layer);
  Layer& layer = *layers_[at];
  LayerCall call = CallOf(memory, at);
  call.accumulate = calls.accumulates;
  call.loss_scale = calls.loss_scale;
  call.seed = calls.seed;
  call.first_row = calls.first_row;
  call.input = At(memory, buffers.input);
  call.output = At(memory, buffers.output);
  call.output_grad = At(memory, buffers.output_grad);
  call.input_grad = At(memory, buffers.input_grad);
  call.targets = static_cast<const int32_t*>(At(memory, buffers.targets));
  call.starts = static_cast<const int32_t*>(At(memory, buffers.starts));
  tensors_.clear();
  for (const BufferId tensor : buffers.tensors) tensors_.push_back(At(memory, tensor));
  call.tensors = tensors_;
  if (instruction.step == Step::kForward) {
    auto* const loss = static_cast<Loss*>(static_cast<void*>(loss_.data()));
    call.loss = &loss->loss;
    call.correct = &loss->correct;
  }
  MakeCall(instruction.step, layer, call);
  MaybeFlipResult(own_, instruction.step, layer.decl(), call);
  digest_.Note(instruction.step, at, layer.decl(), call);
}

}  // namespace sluice
