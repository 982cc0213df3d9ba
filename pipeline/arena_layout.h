#ifndef SLUICE_PIPELINE_ARENA_LAYOUT_H_
#define SLUICE_PIPELINE_ARENA_LAYOUT_H_

#include "pipeline/run_plan.h"

namespace sluice {

// Where everything of one rank lies, once its two programs are compiled.
ArenaLayout LayOutArena(const RunPlan& plan, const RankProgram& train, const RankProgram& evaluate);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_ARENA_LAYOUT_H_
