#ifndef SLUICE_PIPELINE_COMPILE_MEMORY_ARENA_LAYOUT_H_
#define SLUICE_PIPELINE_COMPILE_MEMORY_ARENA_LAYOUT_H_

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Where everything of one rank of the world lies. `train` and `evaluate`: where the buffers of its
// rank of the pipeline lie within the region that the two programs share.
ArenaLayout LayOutArena(const RunPlan& plan, int world_rank, BufferLayout train,
                        BufferLayout evaluate);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_MEMORY_ARENA_LAYOUT_H_
