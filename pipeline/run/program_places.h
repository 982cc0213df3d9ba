#ifndef SLUICE_PIPELINE_RUN_PROGRAM_PLACES_H_
#define SLUICE_PIPELINE_RUN_PROGRAM_PLACES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "comm/where.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Says of an error in which rank, stage, micro-batch and action of a program it happened.
class ProgramPlaces {
 public:
  // Both must outlive this.
  ProgramPlaces(const RunPlan& plan, int world_rank, const RankProgram& program);

  // When all of the program has been queued.
  Where AtEndOfStep() const;
  // The action of an instruction of the program, by its number: the one that runs then, or the next
  // one, which waits for it; idle after the last.
  const Action& ActionOf(size_t instruction) const { return actions_[instruction]; }
  // `status` of an instruction, with its place.
  absl::Status Explain(const absl::Status& status, size_t instruction) const;

 private:
  const RunPlan& plan_;
  const int world_rank_;
  std::vector<Action> actions_;  // [instruction]
};

// Where rank `world_rank` of `plan` is when it is at `action`; an idle one is left out.
Where PlaceOf(const RunPlan& plan, int world_rank, const Action& action);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_PROGRAM_PLACES_H_
