#ifndef SLUICE_PIPELINE_COMPILE_REPLICAS_TENSOR_EDGES_H_
#define SLUICE_PIPELINE_COMPILE_REPLICAS_TENSOR_EDGES_H_

#include <utility>
#include <vector>

#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// Every ordered pair of ranks of the world (from, to) between which a run sends tensors: along the
// pipeline, between ranks that hold tied parameters or copies of a stage, within every RankGroup,
// to the rank that mirrors another, and to the one that audits it. In ascending order, each once.
std::vector<std::pair<int, int>> TensorEdges(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_REPLICAS_TENSOR_EDGES_H_
