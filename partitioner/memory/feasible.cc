#include "partitioner/memory/feasible.h"

#include <algorithm>
#include <utility>

#include "partitioner/cuts/minimax.h"

namespace sluice {
namespace {

// Stages looked at while boundaries move to save memory: bounds the time of long pipelines.
constexpr int64_t kMostMoves = 400'000;

std::shared_ptr<const InFlight> Known(const PartitionProblem& problem) {
  if (problem.in_flight == nullptr) return std::make_shared<const InFlight>(*problem.timetable);
  // The caller's, who keeps it.
  return {std::shared_ptr<const InFlight>(), problem.in_flight};
}

}  // namespace

Feasible::Feasible(const PartitionProblem& problem)
    : problem_(problem), in_flight_(Known(problem)), alone_(problem.stages()) {
  for (int rank = 0; rank < in_flight_->ranks(); ++rank) {
    const std::vector<int>& stages = in_flight_->stages(rank);
    check_steps_ += static_cast<int64_t>(in_flight_->moments(rank).size() * stages.size());
  }
  for (int stage = 0; stage < problem.stages(); ++stage) ListAlone(stage);
}

void Feasible::ListAlone(int stage) {
  const int rank = problem_.timetable->placement.rank(stage);
  const std::vector<int>& stages = in_flight_->stages(rank);
  const auto chunk = std::find(stages.begin(), stages.end(), stage) - stages.begin();
  for (const InFlight::Moment& moment : in_flight_->moments(rank)) {
    const bool working = moment.working == static_cast<int>(chunk);
    const Alone alone{moment.activations[chunk], moment.weight_grads[chunk], working,
                      working && moment.forward};
    const auto covers = [](const Alone& big, const Alone& small) {
      return big.activations >= small.activations && big.weight_grads >= small.weight_grads &&
             (!small.working || (big.working && (small.forward || !big.forward)));
    };
    if (std::any_of(alone_[stage].begin(), alone_[stage].end(),
                    [&](const Alone& other) { return covers(other, alone); })) {
      continue;
    }
    std::erase_if(alone_[stage], [&](const Alone& other) { return covers(alone, other); });
    alone_[stage].push_back(alone);
  }
}

int64_t Feasible::StageBytes(int stage, const RangeCost& cost) const {
  int64_t most = 0;
  for (const Alone& alone : alone_[stage]) {
    most = std::max(most, alone.activations * cost.activation_bytes +
                              alone.weight_grads * cost.weight_grad_bytes +
                              (alone.working ? Workspace(cost, alone.forward) : 0));
  }
  return cost.parameter_bytes + most;
}

std::vector<Recompute> Feasible::Policies(int stage, int first, int end) const {
  struct Choice {
    RangeCost cost;
    Recompute policy;
  };
  if (problem_.fixed && (*problem_.fixed)[stage] != LayerRange{first, end - 1}) return {};
  std::vector<Choice> choices;
  for (Recompute policy : problem_.policies) {
    const RangeCost cost = problem_.Price(stage, first, end, policy);
    if (problem_.machines.limits_memory() && StageBytes(stage, cost) > MemoryOf(stage)) continue;
    choices.push_back({cost, policy});
  }
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.cost.input_grad < b.cost.input_grad;
  });
  // A policy changes only I and these; a slower one must save in one of them.
  const auto needs_no_less = [](const RangeCost& a, const RangeCost& b) {
    return a.activation_bytes >= b.activation_bytes && a.workspace_bytes >= b.workspace_bytes &&
           a.forward_workspace_bytes >= b.forward_workspace_bytes;
  };
  std::vector<Choice> kept;
  for (const Choice& choice : choices) {
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const Choice& k) { return needs_no_less(choice.cost, k.cost); })) {
      continue;
    }
    kept.push_back(choice);
    if (one_stage_a_rank() || !problem_.machines.limits_memory()) break;
  }
  std::vector<Recompute> policies;
  policies.reserve(kept.size());
  for (const Choice& choice : kept) policies.push_back(choice.policy);
  return policies;
}

bool Feasible::Fits(const std::vector<RangeCost>& stages) const {
  if (!problem_.machines.limits_memory()) return true;
  const std::vector<int64_t> peaks = PeakBytes(*in_flight_, stages);
  for (int rank = 0; rank < in_flight_->ranks(); ++rank) {
    if (peaks[rank] > problem_.machines.MemoryOf(rank)) return false;
  }
  return true;
}

int64_t Feasible::LargestBytes(const std::vector<RangeCost>& stages) const {
  const std::vector<int64_t> peaks = PeakBytes(*in_flight_, stages);
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
    const int64_t need = StageBytes(stage, problem_.Price(stage, first, end, problem_.policies[i]));
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
  const auto bytes_of = [this](int stage, int first, int end) {
    int64_t bytes = 0;
    LeanestPolicy(stage, first, end, &bytes);
    return static_cast<double>(bytes);
  };
  const std::optional<MinimaxAnswer> seed =
      MonotoneMinimax(problem_.layer_count(), problem_.stages(), bytes_of).Run();
  StageAssignment best = WithLeanestPolicies(seed->partition);
  if (!one_stage_a_rank()) MoveBoundaries(&best);
  return best;
}

// Each move changes two stages, so at most two ranks.
void Feasible::MoveBoundaries(StageAssignment* best) const {
  Partition& partition = best->partition;
  std::vector<RangeCost> stages = PriceStages(problem_, *best);
  std::vector<int64_t> peaks = PeakBytes(*in_flight_, stages);
  const auto set = [&](size_t s) {
    int64_t bytes = 0;
    const auto [first, last] = partition[s];
    best->recompute[s] = LeanestPolicy(static_cast<int>(s), first, last + 1, &bytes);
    stages[s] = problem_.Price(static_cast<int>(s), first, last + 1, best->recompute[s]);
  };
  const auto move = [&](size_t s, int step) {
    partition[s].last += step;
    partition[s + 1].first += step;
    for (size_t stage : {s, s + 1}) set(stage);
    for (size_t stage : {s, s + 1}) {
      const int rank = problem_.timetable->placement.rank(static_cast<int>(stage));
      peaks[rank] = PeakBytes(*in_flight_, stages, rank);
    }
  };
  int64_t least = *std::max_element(peaks.begin(), peaks.end());
  int64_t left = kMostMoves / static_cast<int64_t>(partition.size());
  for (bool better = true; better && left > 0;) {
    better = false;
    for (size_t s = 0; s + 1 < partition.size(); ++s) {
      for (int step : {-1, 1}) {
        if (partition[s].size() + step < 1 || partition[s + 1].size() - step < 1) continue;
        if (--left < 0) break;
        move(s, step);
        const int64_t bytes = *std::max_element(peaks.begin(), peaks.end());
        if (bytes < least) {
          least = bytes;
          better = true;
        } else {
          move(s, -step);
        }
      }
    }
  }
}

}  // namespace sluice
