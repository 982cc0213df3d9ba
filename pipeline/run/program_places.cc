#include "pipeline/run/program_places.h"

namespace sluice {

// Named as timetables name it that have it as an action.
absl::Status ProgramPlaces::ExplainReduction(const absl::Status& status,
                                             const Instruction& instruction) const {
  const int layer = program_.reductions[static_cast<size_t>(instruction.index)].first;
  auto stage = program_.stages.begin();
  while (stage->last < layer) ++stage;
  return WithWhere(status, At({Op::kReduceGrad, false, static_cast<uint16_t>(stage->stage),
                               instruction.micro_batch}));
}

// Which rank this is.
Where ProgramPlaces::Self() const {
  const RankGroup group = plan_.GroupOf(world_rank_);
  Where self{.rank = world_rank_};
  if (group.size > 1) self.replica = group.index;
  return self;
}

Where ProgramPlaces::At(const Action& action) const {
  Where where = Self();
  where.stage = action.stage;
  where.micro_batch = action.micro_batch;
  where.action = ToString(action);
  return where;
}

Where ProgramPlaces::AtEndOfStep() const {
  Where where = Self();
  where.moment = Where::Moment::kEndOfStep;
  return where;
}

absl::Status ProgramPlaces::Explain(const absl::Status& status, const Instruction& instruction,
                                    int current_action) const {
  if (instruction.step == Step::kReduceGradients) return ExplainReduction(status, instruction);
  // The next action of the row is the one that waits.
  int action = current_action;
  if (action < 0) {
    const Instruction* end = program_.instructions.data() + program_.instructions.size();
    for (const Instruction* next = &instruction; next < end && action < 0; ++next) {
      if (next->step == Step::kBeginAction) action = next->index;
    }
  }
  return WithWhere(status,
                   action < 0 ? AtEndOfStep() : At(program_.actions[static_cast<size_t>(action)]));
}

}  // namespace sluice
