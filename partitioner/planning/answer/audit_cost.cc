#include "partitioner/planning/answer/audit_cost.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/planning/answer/run_memory.h"

namespace sluice {
namespace {

// After an update, and before the next one.
constexpr int kHashesPerStep = 2;
// The audited rank copies or hashes what it sends; the auditor hashes it, or packs it to compute with.
constexpr int kPassesOverMessage = 2;

int64_t WeightBytes(const LayerDecl& layer) {
  int64_t bytes = 0;
  for (const ParameterDecl& parameter : layer.parameters) bytes += parameter.bytes();
  return bytes;
}

class AuditSeconds {
 public:
  AuditSeconds(const RunPlan& run, const Plan& plan, const Machines& machines,
               double memory_bandwidth)
      : run_(run), plan_(plan), machines_(machines), memory_bandwidth_(memory_bandwidth) {}

  double PerStep() const {
    return OfHashing() + OfAudit() / static_cast<double>(run_.request.audit_every);
  }

 private:
  // Of one audited step, in the mean over all turns of the ranks' stages.
  double OfAudit() const {
    size_t turns = 1;
    for (int rank = 0; rank < run_.ranks(); ++rank)
      turns = std::lcm(turns, run_.deal.StagesOf(rank).size());
    double sum = 0;
    for (size_t turn = 0; turn < turns; ++turn) {
      double slowest = 0;
      for (int rank = 0; rank < run_.world_size(); ++rank)
        slowest = std::max(slowest, OfRank(rank, turn));
      sum += slowest;
    }
    return sum / static_cast<double>(turns);
  }

  // The rank computes a stage of the one that it audits.
  double OfRank(int world_rank, size_t turn) const {
    const int audited = run_.pipeline_rank(run_.AuditedRank(world_rank));
    const std::vector<int> stages = run_.deal.StagesOf(audited);
    const int stage = stages[turn % stages.size()];
    const PlanStage& planned =
        plan_.stages[static_cast<size_t>(run_.lowered.placement.model_stage(stage))];
    const CostTable& costs = machines_.CostsOf(run_.pipeline_rank(world_rank));
    const RangeCost cost =
        costs.Price({planned.layers.front(), planned.layers.back()}, Recompute::kNone);
    const int64_t sent = SentBytes(stage, audited);
    return machines_.link.Seconds(sent) + cost.forward + cost.backward() +
           kPassesOverMessage * OverMemory(sent);
  }

  int64_t SentBytes(int stage, int rank) const {
    const StageAudit& audit = run_.stage_audits[static_cast<size_t>(stage)];
    int64_t bytes = 0;
    const auto add = [&](BufferId buffer) {
      if (buffer != kNoBuffer) bytes += audit.program.buffers[static_cast<size_t>(buffer)].bytes;
    };
    for (const BufferId buffer : {audit.input, audit.starts, audit.targets, audit.output_grad})
      add(buffer);
    for (const std::vector<BufferId>& weights : audit.weights)
      std::for_each(weights.begin(), weights.end(), add);
    const std::vector<CallBuffers>& calls = run_.train[static_cast<size_t>(rank)].calls;
    const bool accumulates = std::any_of(calls.begin(), calls.end(),
                                         [](const CallBuffers& call) { return call.accumulate; });
    if (!accumulates) return bytes;
    for (const std::vector<BufferId>& gradients : audit.gradients)
      std::for_each(gradients.begin(), gradients.end(), add);
    return bytes;
  }

  // In every step, audited or not.
  double OfHashing() const {
    int64_t most = 0;
    for (int rank = 0; rank < run_.ranks(); ++rank) {
      int64_t bytes = 0;
      for (const int layer : run_.train[static_cast<size_t>(rank)].layers)
        bytes += WeightBytes(run_.layers[static_cast<size_t>(layer)]);
      most = std::max(most, bytes);
    }
    return kHashesPerStep * OverMemory(most);
  }

  double OverMemory(int64_t bytes) const { return static_cast<double>(bytes) / memory_bandwidth_; }

  const RunPlan& run_;
  const Plan& plan_;
  const Machines& machines_;
  const double memory_bandwidth_;
};

}  // namespace

absl::Status AddAudits(const RunRequest& request, const Machines& machines, double memory_bandwidth,
                       int most_stages, const std::function<bool()>& stop, Plan* plan) {
  const absl::StatusOr<RunPlan> audited = CompileInTime(request, stop);
  if (!audited.ok()) return audited.status();
  RunRequest plain = request;
  plain.audit_every = 0;
  absl::StatusOr<std::vector<int64_t>> without = RunMemory(plain, stop);
  if (!without.ok()) return without.status();
  for (size_t rank = 0; rank < without->size(); ++rank)
    plan->audit_bytes.push_back(plan->peak_bytes[rank] - (*without)[rank]);
  plan->audit_seconds = AuditSeconds(*audited, *plan, machines, memory_bandwidth).PerStep();
  plan->step_seconds += plan->audit_seconds;
  if (plan->objective != PlanObjective::kStep) return absl::OkStatus();
  plan->SetLowerBound(plan->lower_bound + AuditFloor(machines, most_stages, request.audit_every));
  return absl::OkStatus();
}

double AuditFloor(const Machines& machines, int most_stages, int audit_every) {
  if (most_stages == 0) return 0;
  const RangeCost all = machines.costs->Price(0, machines.costs->layer_count(), Recompute::kNone);
  return (all.forward + all.backward()) / most_stages / audit_every;
}

}  // namespace sluice
