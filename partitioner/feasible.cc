#include "partitioner/feasible.h"

#include <algorithm>
#include <utility>

#include "partitioner/minimax.h"

namespace sluice {

Feasible::Feasible(const PartitionProblem& problem)
    : problem_(problem), in_flight_(*problem.timetable), chunk_of_stage_(problem.stages()) {
  for (int rank = 0; rank < in_flight_.ranks(); ++rank) {
    const std::vector<int>& stages = in_flight_.stages(rank);
    check_steps_ += static_cast<int64_t>(in_flight_.moments(rank).size() * stages.size());
    for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
      chunk_of_stage_[stages[chunk]] = static_cast<int>(chunk);
    }
  }
}

int64_t Feasible::StageBytes(int stage, const RangeCost& cost) const {
  const int rank = problem_.timetable->placement.rank(stage);
  std::vector<RangeCost> chunks(chunk_of_stage_[stage] + 1);
  chunks.back() = cost;
  return in_flight_.PeakBytes(rank, chunks);
}

std::vector<Recompute> Feasible::Policies(int stage, int first, int end) const {
  struct Choice {
    RangeCost cost;
    Recompute policy;
  };
  if (problem_.fixed && (*problem_.fixed)[stage] != LayerRange{first, end - 1}) return {};
  std::vector<Choice> choices;
  for (Recompute policy : problem_.policies) {
    const RangeCost cost = problem_.costs->Price(first, end, policy);
    if (problem_.memory_limit && StageBytes(stage, cost) > *problem_.memory_limit) continue;
    choices.push_back({cost, policy});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.cost.input_grad < b.cost.input_grad;
  });
  // A policy changes only I and these two; a slower one must save in one of them.
  const auto needs_no_less = [](const RangeCost& a, const RangeCost& b) {
    return a.activation_bytes >= b.activation_bytes && a.workspace_bytes >= b.workspace_bytes;
  };
  std::vector<Choice> kept;
  for (const Choice& choice : choices) {
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const Choice& k) { return needs_no_less(choice.cost, k.cost); })) {
      continue;
    }
    kept.push_back(choice);
    if (one_stage_a_rank() || !problem_.memory_limit) break;
  }
  std::vector<Recompute> policies;
  policies.reserve(kept.size());
  for (const Choice& choice : kept) policies.push_back(choice.policy);
  return policies;
}

bool Feasible::Fits(const std::vector<RangeCost>& stages) const {
  return !problem_.memory_limit || LargestBytes(stages) <= *problem_.memory_limit;
}

int64_t Feasible::LargestBytes(const std::vector<RangeCost>& stages) const {
  const std::vector<int64_t> peaks = PeakBytes(in_flight_, stages);
  return *std::max_element(peaks.begin(), peaks.end());
}

std::optional<StageAssignment> Feasible::WithFastestPolicies(const Partition& partition) const {
  StageAssignment assignment{partition, {}};
  for (size_t s = 0; s < partition.size(); ++s) {
    const std::vector<Recompute> policies =
        Policies(static_cast<int>(s), partition[s].first, partition[s].last + 1);
    if (policies.empty()) return std::nullopt;
    assignment.recompute.push_back(policies.front());
  }
  if (!Fits(PriceStages(problem_, assignment))) return std::nullopt;
  return assignment;
}

Recompute Feasible::LeanestPolicy(int stage, int first, int end, int64_t* bytes) const {
  Recompute leanest = problem_.policies.front();
  for (size_t i = 0; i < problem_.policies.size(); ++i) {
    const int64_t need = StageBytes(stage, problem_.costs->Price(first, end, problem_.policies[i]));
    if (i > 0 && need >= *bytes) continue;
    *bytes = need;
    leanest = problem_.policies[i];
  }
  return leanest;
}

StageAssignment Feasible::WithLeanestPolicies(const Partition& partition) const {
  StageAssignment assignment{partition, {}};
  for (size_t s = 0; s < partition.size(); ++s) {
    int64_t bytes = 0;
    assignment.recompute.push_back(
        LeanestPolicy(static_cast<int>(s), partition[s].first, partition[s].last + 1, &bytes));
  }
  return assignment;
}

StageAssignment Feasible::LeastMemory() const {
  if (problem_.fixed) return WithLeanestPolicies(*problem_.fixed);
  const std::optional<MinimaxAnswer> seed = MinimaxPartition(
      problem_.costs->layer_count(), problem_.stages(), [this](int stage, int first, int end) {
        int64_t bytes = 0;
        LeanestPolicy(stage, first, end, &bytes);
        return static_cast<double>(bytes);
      });
  StageAssignment best = WithLeanestPolicies(seed->partition);
  if (one_stage_a_rank()) return best;
  int64_t least = LargestBytes(PriceStages(problem_, best));
  for (bool better = true; better;) {
    better = false;
    for (size_t s = 0; s + 1 < best.partition.size(); ++s) {
      for (int step : {-1, 1}) {
        Partition moved = best.partition;
        moved[s].last += step;
        moved[s + 1].first += step;
        if (moved[s].size() < 1 || moved[s + 1].size() < 1) continue;
        StageAssignment candidate = WithLeanestPolicies(moved);
        const int64_t bytes = LargestBytes(PriceStages(problem_, candidate));
        if (bytes >= least) continue;
        least = bytes;
        best = std::move(candidate);
        better = true;
      }
    }
  }
  return best;
}

}  // namespace sluice
