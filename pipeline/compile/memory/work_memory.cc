#include "pipeline/compile/memory/work_memory.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/kernels/kernels.h"
#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/replicas/tied_parameters.h"

namespace sluice {
namespace {

int64_t GradientBytes(const ParameterDecl& decl) {
  return AlignUp(TrainedElements(decl) * SizeOf(DType::kFloat32));
}

}  // namespace

int64_t ExchangedBytes(const RunPlan& plan, int world_rank) {
  const RankGroup group = plan.GroupOf(world_rank);
  const int rank = plan.pipeline_rank(group.rank(0));
  const auto slice = static_cast<size_t>(group.index);
  int64_t bytes = 0;
  for (const TiedPair& pair : TiedPairs(plan)) {
    if (pair.original_rank == pair.copy_rank) continue;
    if (pair.original_rank != rank && pair.copy_rank != rank) continue;
    if (plan.zero(world_rank) == 0) {
      bytes = std::max(bytes, AlignUp(pair.bytes));
      continue;
    }
    const std::vector<int64_t>& bounds = plan.shards[static_cast<size_t>(pair.original)];
    bytes = std::max(bytes, AlignUp((bounds[slice + 1] - bounds[slice]) * SizeOf(DType::kFloat32)));
  }
  if (plan.lowered.placement.copies() == 1) return bytes;
  for (int layer : plan.train[static_cast<size_t>(rank)].layers) {
    for (const ParameterDecl& decl : plan.layers[static_cast<size_t>(layer)].parameters)
      bytes = std::max(bytes, GradientBytes(decl));
  }
  return bytes;
}

int64_t AuditBytes(const RunPlan& plan, int world_rank) {
  int64_t bytes = 0;
  if (!plan.audits()) return bytes;
  for (const int stage : plan.deal.StagesOf(plan.pipeline_rank(plan.AuditedRank(world_rank))))
    bytes = std::max(bytes, plan.stage_audits[static_cast<size_t>(stage)].bytes);
  return bytes;
}

int64_t SquareBlocks(int64_t elements) { return (elements + kSquaresBlock - 1) / kSquaresBlock; }

int64_t NormPartialCount(const RunPlan& plan) {
  int64_t parameters = 0;
  for (const LayerDecl& layer : plan.layers)
    parameters += static_cast<int64_t>(layer.parameters.size());
  return 2 * parameters;
}

int64_t NormPartialBytes(const RunPlan& plan) {
  return AlignUp(NormPartialCount(plan) * static_cast<int64_t>(sizeof(double)));
}

int64_t NormWorkBytes(const RunPlan& plan, int world_rank) {
  const auto rank = static_cast<size_t>(plan.pipeline_rank(world_rank));
  int64_t blocks = 0;
  for (int layer : plan.train[rank].layers) {
    for (const ParameterDecl& decl : plan.layers[static_cast<size_t>(layer)].parameters)
      blocks += SquareBlocks(TrainedElements(decl));
  }
  return NormPartialBytes(plan) + AlignUp(blocks * static_cast<int64_t>(sizeof(double)));
}

}  // namespace sluice
