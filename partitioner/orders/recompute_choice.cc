#include "partitioner/orders/recompute_choice.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace sluice {
namespace {

constexpr double kRounding = 1e-9;
// What is recomputed makes micro-batches take longer, hence more of them be in flight.
constexpr int kRounds = 3;
// Steps in which ranks are let work longer, and the most: all forwards twice and more.
constexpr double kLonger = 1.01, kLongest = 1.5;

double WorkOf(const RangeCost& stage) { return stage.forward + stage.backward(); }

double WorkOf(const std::vector<RangeCost>& stages) {
  double work = 0;
  for (const RangeCost& stage : stages) work += WorkOf(stage);
  return work;
}

// The policies of a rank's stages, made better one combination after the other.
struct Choice {
  std::vector<Recompute> policies;
  double lacks = std::numeric_limits<double>::infinity();  // bytes; 0: nothing
  double work = 0;                                         // seconds
};

class ToFit {
 public:
  ToFit(const Workload& workload, const PlacedCut& cut, double slowness)
      : workload_(workload), cut_(cut), slowness_(slowness) {
    recompute_.assign(cut.partition.size(), Recompute::kNone);
    for (int rank = 0; rank < cut.placement.ranks(); ++rank) {
      std::vector<RangeCost> stages;
      for (int stage : cut.placement.StagesOf(rank)) stages.push_back(Price(stage));
      cycle_ = std::max(cycle_, WorkOf(stages));
    }
  }

  std::vector<Recompute> Choose() {
    for (int round = 0; round < kRounds; ++round) {
      FindInFlight();
      lacks_ = 0;
      for (int rank = 0; rank < cut_.placement.ranks(); ++rank) ChooseOf(rank);
    }
    return recompute_;
  }

  // Lets ranks work longer and longer until none lacks memory; where that does not help, what
  // Choose says.
  std::vector<Recompute> ChooseLonger() {
    const double shortest = cycle_;
    for (; cycle_ < kLongest * shortest; cycle_ *= kLonger) {
      recompute_.assign(recompute_.size(), Recompute::kNone);
      std::vector<Recompute> chosen = Choose();
      if (lacks_ == 0) return chosen;
    }
    cycle_ = shortest;
    return Choose();
  }

 private:
  RangeCost Price(int stage) const {
    return workload_.machines.costs->Price(cut_.partition[stage], recompute_[stage]);
  }

  void FindInFlight() {
    const size_t stages = cut_.partition.size();
    in_flight_.resize(stages);
    double trip = 0;
    for (size_t stage = stages; stage-- > 0;) {
      const RangeCost cost = Price(static_cast<int>(stage));
      trip += cost.forward + cost.input_grad;
      in_flight_[stage] = std::min<double>(slowness_ * trip / cycle_ + 1, workload_.micro_batches);
    }
  }

  void ChooseOf(int rank) {
    const std::vector<int> stages = cut_.placement.StagesOf(rank);
    Choice best;
    Try(rank, stages, 0, &best);
    lacks_ = std::max(lacks_, best.lacks);
    for (size_t i = 0; i < stages.size(); ++i) recompute_[stages[i]] = best.policies[i];
  }

  // Every policy of the stages from `next` on.
  void Try(int rank, const std::vector<int>& stages, size_t next, Choice* best) {
    if (next == stages.size()) return Compare(rank, stages, best);
    for (Recompute policy : workload_.policies) {
      recompute_[stages[next]] = policy;
      Try(rank, stages, next + 1, best);
    }
  }

  void Compare(int rank, const std::vector<int>& stages, Choice* best) const {
    Choice choice;
    std::vector<RangeCost> costs;
    double held = 0;
    for (int stage : stages) {
      choice.policies.push_back(recompute_[stage]);
      costs.push_back(Price(stage));
      held += in_flight_[stage] * static_cast<double>(costs.back().activation_bytes);
    }
    choice.work = WorkOf(costs);
    choice.lacks = std::max(0.0, held - RoomInFlight(workload_.machines.MemoryOf(rank), costs));
    if (choice.work > cycle_ * (1 + kRounding)) return;
    if (choice.lacks < best->lacks || (choice.lacks == best->lacks && choice.work < best->work)) {
      *best = std::move(choice);
    }
  }

  const Workload& workload_;
  const PlacedCut& cut_;
  const double slowness_;
  double cycle_ = 0;                  // seconds that a rank may work on a micro-batch
  double lacks_ = 0;                  // most bytes that a rank lacks with what was chosen last
  std::vector<Recompute> recompute_;  // [stage]
  std::vector<double> in_flight_;     // [stage] micro-batches
};

}  // namespace

double RoomInFlight(int64_t memory, const std::vector<RangeCost>& stages) {
  int64_t sometimes = 0;
  for (const RangeCost& stage : stages) {
    sometimes = std::max(
        {sometimes, stage.workspace_bytes, stage.weight_grad_bytes - stage.activation_bytes});
  }
  return static_cast<double>(memory - ParameterBytes(stages) - sometimes);
}

std::vector<Recompute> RecomputeInSpareTime(const CostTable& costs, const Partition& partition,
                                            Recompute everywhere, Recompute in_spare_time) {
  const size_t ranks = partition.size() / 2;
  std::vector<Recompute> recompute(partition.size(), everywhere);
  const auto work_of = [&](size_t rank, Recompute first) {
    return WorkOf(costs.Price(partition[rank], first)) +
           WorkOf(costs.Price(partition[partition.size() - 1 - rank], everywhere));
  };
  double fullest = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    fullest = std::max(fullest, work_of(rank, everywhere));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (work_of(rank, in_spare_time) <= fullest) recompute[rank] = in_spare_time;
  }
  return recompute;
}

std::vector<Recompute> RecomputeToFit(const Workload& workload, const PlacedCut& cut,
                                      double slowness, bool longer) {
  if (!workload.machines.limits_memory()) return std::vector<Recompute>(cut.partition.size());
  ToFit fit(workload, cut, slowness);
  return longer ? fit.ChooseLonger() : fit.Choose();
}

}  // namespace sluice
