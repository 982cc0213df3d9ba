#include "pipeline/compile/program/program_builder.h"

#include "models/spec/dtype.h"

namespace sluice {

BufferId ProgramBuilder::New(int64_t bytes) {
  program_.buffers.push_back({.bytes = bytes, .first = next(), .last = next()});
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

void ProgramBuilder::Use(BufferId id) {
  if (id != kNoBuffer) program_.buffers[id].last = next();
}

void ProgramBuilder::Append(const Instruction& instruction) {
  Use(instruction.buffer);
  program_.instructions.push_back(instruction);
}

void ProgramBuilder::AppendCall(Step step, CallBuffers call, int micro_batch) {
  for (BufferId id : {call.input, call.output, call.output_grad, call.input_grad, call.targets,
                      call.starts, call.gradients})
    Use(id);
  for (BufferId id : call.tensors) Use(id);
  program_.calls.push_back(std::move(call));
  Append({.step = step,
          .micro_batch = micro_batch,
          .index = static_cast<int32_t>(program_.calls.size()) - 1});
}

void ProgramBuilder::Begin(const Action& action) {
  program_.actions.push_back(action);
  Append({.step = Step::kBeginAction,
          .micro_batch = action.micro_batch,
          .index = static_cast<int32_t>(program_.actions.size()) - 1});
}

void ProgramBuilder::End() {
  Append({.step = Step::kEndAction,
          .micro_batch = program_.actions.back().micro_batch,
          .index = static_cast<int32_t>(program_.actions.size()) - 1});
}

void ProgramBuilder::Reduce(GradientReduction reduction, int micro_batch) {
  Use(reduction.gradients);
  const BufferId work =
      New(reduction.work_elements * static_cast<int64_t>(SizeOf(DType::kFloat32)));
  program_.reductions.push_back(reduction);
  Append({.step = Step::kReduceGradients,
          .micro_batch = micro_batch,
          .index = static_cast<int32_t>(program_.reductions.size()) - 1,
          .buffer = work});
}

BufferId ProgramBuilder::Load(Step step, int64_t bytes, int micro_batch) {
  const BufferId buffer = New(bytes);
  Append({.step = step, .micro_batch = micro_batch, .buffer = buffer});
  return buffer;
}

}  // namespace sluice
