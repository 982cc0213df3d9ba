#ifndef SLUICE_PIPELINE_COMPILE_MEMORY_WORK_MEMORY_H_
#define SLUICE_PIPELINE_COMPILE_MEMORY_WORK_MEMORY_H_

#include <cstdint>

#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// The work memory that a rank needs between the passes of a step, in its arena.

// Bytes of the step region that rank `world_rank` of the world needs to exchange gradients with
// other ranks before the weights change (gradient_exchange.h).
int64_t ExchangedBytes(const RunPlan& plan, int world_rank);

// Bytes of the step region that it needs to compute a micro-batch of the rank that it audits again;
// 0 without audits.
int64_t AuditBytes(const RunPlan& plan, int world_rank);

// Blocks of kSquaresBlock elements, the last one perhaps shorter.
int64_t SquareBlocks(int64_t elements);
// Partial sums of squares: two numbers for each parameter of the model (GroupedSum::sums), and
// their bytes.
int64_t NormPartialCount(const RunPlan& plan);
int64_t NormPartialBytes(const RunPlan& plan);
// Bytes that the gradient's norm is computed in (ArenaLayout::norm_work): the partial sums, then the
// sum of each block of the rank's parameters.
int64_t NormWorkBytes(const RunPlan& plan, int world_rank);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_MEMORY_WORK_MEMORY_H_
