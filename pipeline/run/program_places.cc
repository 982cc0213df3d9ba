#include "pipeline/run/program_places.h"

namespace sluice {
namespace {

// Named as timetables name it that have it as an action.
Action ReductionOf(const RankProgram& program, const Instruction& instruction) {
  const int layer = program.reductions[static_cast<size_t>(instruction.index)].first;
  auto stage = program.stages.begin();
  while (stage->last < layer) ++stage;
  return {Op::kReduceGrad, false, static_cast<uint16_t>(stage->stage), instruction.micro_batch};
}

std::vector<Action> ActionsOf(const RankProgram& program) {
  std::vector<Action> actions(program.instructions.size());
  Action action;  // that ends at the instruction or after it
  for (size_t i = actions.size(); i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.step == Step::kEndAction)
      action = program.actions[static_cast<size_t>(instruction.index)];
    const bool reduces = instruction.step == Step::kReduceGradients;
    actions[i] = reduces ? ReductionOf(program, instruction) : action;
  }
  return actions;
}

}  // namespace

ProgramPlaces::ProgramPlaces(const RunPlan& plan, int world_rank, const RankProgram& program)
    : plan_(plan), world_rank_(world_rank), actions_(ActionsOf(program)) {}

Where ProgramPlaces::AtEndOfStep() const {
  Where where = PlaceOf(plan_, world_rank_, {});
  where.moment = Where::Moment::kEndOfStep;
  return where;
}

absl::Status ProgramPlaces::Explain(const absl::Status& status, size_t instruction) const {
  const Action& action = actions_[instruction];
  return WithWhere(status,
                   action.op == Op::kIdle ? AtEndOfStep() : PlaceOf(plan_, world_rank_, action));
}

Where PlaceOf(const RunPlan& plan, int world_rank, const Action& action) {
  const RankGroup group = plan.GroupOf(world_rank);
  Where where{.rank = world_rank};
  if (group.size > 1) where.replica = group.index;
  if (action.op == Op::kIdle) return where;
  where.stage = action.stage;
  where.micro_batch = action.micro_batch;
  where.action = ToString(action);
  return where;
}

}  // namespace sluice
