#ifndef SLUICE_PIPELINE_RUN_PROGRAM_PLACES_H_
#define SLUICE_PIPELINE_RUN_PROGRAM_PLACES_H_

#include "absl/status/status.h"
#include "comm/where.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Says of an error in which rank, stage, micro-batch and action of a program it happened.
class ProgramPlaces {
 public:
  // Both must outlive this.
  ProgramPlaces(const RunPlan& plan, int world_rank, const RankProgram& program)
      : plan_(plan), world_rank_(world_rank), program_(program) {}

  // When all of the program has been queued.
  Where AtEndOfStep() const;
  // `status` of `instruction`, with its place. `current_action` is the action that was running;
  // negative between two, where it is the next one that waits.
  absl::Status Explain(const absl::Status& status, const Instruction& instruction,
                       int current_action) const;

 private:
  Where Self() const;
  Where At(const Action& action) const;
  absl::Status ExplainReduction(const absl::Status& status, const Instruction& instruction) const;

  const RunPlan& plan_;
  const int world_rank_;
  const RankProgram& program_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_PROGRAM_PLACES_H_
