#ifndef SLUICE_PIPELINE_COMPILE_MEMORY_ARENA_LAYOUT_H_
#define SLUICE_PIPELINE_COMPILE_MEMORY_ARENA_LAYOUT_H_

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Where the buffers of a rank's two programs lie within the region that they share.
struct StepLayout {
  BufferLayout train;
  BufferLayout evaluate;
};
StepLayout LayOutStep(const RankProgram& train, const RankProgram& evaluate);

// Where everything of one rank of the world lies, once the programs are compiled; `step` is of its
// rank of the pipeline.
ArenaLayout LayOutArena(const RunPlan& plan, int world_rank, StepLayout step);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_MEMORY_ARENA_LAYOUT_H_
