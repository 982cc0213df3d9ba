#include "pipeline/run/audit_record.h"

#include <algorithm>

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/run/timed.h"

namespace sluice {
namespace {

int64_t BytesOf(const StageAudit& audit, BufferId buffer) {
  return buffer == kNoBuffer ? 0 : audit.program.buffers[static_cast<size_t>(buffer)].bytes;
}

int64_t GradientBytes(const ParameterDecl& decl) {
  return TrainedElements(decl) * SizeOf(DType::kFloat32);
}

}  // namespace

bool Accumulates(const RankProgram& program, const AuditTurn& turn) {
  const RankStage stage = StageOf(program, turn.stage);
  return std::any_of(
      program.instructions.begin(), program.instructions.end(),
      [&](const Instruction& instruction) {
        if (instruction.step != Step::kBackwardWeight ||
            instruction.micro_batch != turn.micro_batch)
          return false;
        const CallBuffers& call = program.calls[static_cast<size_t>(instruction.index)];
        return call.layer >= stage.first && call.layer <= stage.last && call.accumulate;
      });
}

RankStage StageOf(const RankProgram& program, int stage) {
  return *std::find_if(program.stages.begin(), program.stages.end(),
                       [stage](const RankStage& of_rank) { return of_rank.stage == stage; });
}

AuditRecord::AuditRecord(RankState* state) : state_(*state) {}

absl::Status AuditRecord::Open() { return digest_.Open(state_, state_.parameters().size()); }

void AuditRecord::Begin(const AuditTurn& turn) {
  turn_ = turn;
  stage_ = StageOf(state_.train_program(), turn.stage);
  digest_.Begin(static_cast<size_t>(stage_.last - stage_.first) + 1);
  forward_done_ = false;
  accumulates_ = Accumulates(state_.train_program(), turn);
}

int AuditRecord::LayerIn(const Instruction& instruction) const {
  if (instruction.micro_batch != turn_.micro_batch) return -1;
  const int local = state_.train_program().calls[static_cast<size_t>(instruction.index)].layer;
  return local >= stage_.first && local <= stage_.last ? local - stage_.first : -1;
}

void AuditRecord::Keep(int64_t offset, const void* tensor, int64_t bytes) {
  if (tensor != nullptr && bytes > 0)
    state_.device().Copy(state_.stream(), state_.arena().at(offset), tensor,
                         static_cast<size_t>(bytes));
}

void AuditRecord::Before(const Instruction& instruction, const LayerCall& call) {
  const int layer = LayerIn(instruction);
  if (layer < 0) return;
  const Timed timed(&seconds_);
  const StageAudit& audit = state_.plan().stage_audits[static_cast<size_t>(turn_.stage)];
  const AuditOffsets& places = state_.layout().audit;
  if (instruction.step == Step::kForward) {
    if (layer == 0 && !forward_done_) {
      Keep(places.input, call.input, BytesOf(audit, audit.input));
      // Of what was there, not of the copy.
      digest_.NoteInput(call.input, BytesOf(audit, audit.input));
    }
    forward_done_ = true;
    Keep(places.starts, call.starts, BytesOf(audit, audit.starts));
    Keep(places.targets, call.targets, BytesOf(audit, audit.targets));
  } else if (instruction.step == Step::kBackwardInput && layer == stage_.last - stage_.first &&
             call.output_grad != nullptr) {
    Keep(places.output_grad, call.output_grad, BytesOf(audit, audit.output_grad));
    digest_.NoteOutputGrad(call.output_grad, BytesOf(audit, audit.output_grad));
  } else if (instruction.step == Step::kBackwardWeight && accumulates_) {
    KeepGradients(stage_.first + layer, call);
  }
}

void AuditRecord::KeepGradients(int local, const LayerCall& call) {
  int64_t at = state_.layout().audit.gradients;
  for (int before = stage_.first; before <= local; ++before) {
    const std::vector<ParameterDecl>& decls = state_.layer(before).decl().parameters;
    for (size_t p = 0; p < decls.size(); ++p) {
      const int64_t bytes = GradientBytes(decls[p]);
      if (before == local && bytes > 0) Keep(at, call.gradients[p], bytes);
      at += AlignUp(bytes);
    }
  }
}

void AuditRecord::After(const Instruction& instruction, const LayerCall& call) {
  const int layer = LayerIn(instruction);
  if (layer < 0) return;
  const Timed timed(&seconds_);
  digest_.Note(instruction.step, static_cast<size_t>(layer),
               state_.layer(stage_.first + layer).decl(), call);
}

TensorPieces AuditRecord::Tensors() const {
  const StageAudit& audit = state_.plan().stage_audits[static_cast<size_t>(turn_.stage)];
  const AuditOffsets& places = state_.layout().audit;
  TensorPieces pieces;
  const auto add = [&](int64_t offset, BufferId buffer) {
    if (buffer != kNoBuffer) pieces.Add(state_.arena().at(offset), BytesOf(audit, buffer));
  };
  for (int local = stage_.first; local <= stage_.last; ++local) {
    for (const ParameterView& view : state_.ParametersOf(local))
      pieces.Add(view.weight, view.decl->bytes());
  }
  add(places.input, audit.input);
  add(places.starts, audit.starts);
  add(places.targets, audit.targets);
  add(places.output_grad, audit.output_grad);
  int64_t at = places.gradients;
  for (int local = stage_.first; accumulates_ && local <= stage_.last; ++local) {
    for (const ParameterDecl& decl : state_.layer(local).decl().parameters) {
      const int64_t bytes = GradientBytes(decl);
      if (bytes > 0) pieces.Add(state_.arena().at(at), bytes);
      at += AlignUp(bytes);
    }
  }
  return pieces;
}

}  // namespace sluice
