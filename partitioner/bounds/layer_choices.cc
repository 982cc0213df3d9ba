#include "partitioner/bounds/layer_choices.h"

#include <algorithm>
#include <limits>

#include "partitioner/bounds/stage_bound.h"

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Ranges looked at. Only long pipelines of many layers have more, and only while nothing is known
// that fits.
constexpr int64_t kMostChoices = 4'000'000;

// StageBound of every choice.
class ChoiceBounds {
 public:
  explicit ChoiceBounds(const PartitionProblem& problem)
      : micro_batches_(problem.timetable->micro_batches),
        splits_(problem.timetable->splits_backward()) {
    const std::vector<const CostTable*> tables = problem.machines.tables();
    for (int i = 0; i < problem.layer_count(); ++i) {
      double forward = kInfinity, back = kInfinity;
      for (const CostTable* table : tables) {
        const LayerCost& layer = table->layers()[i];
        forward = std::min(forward, layer.forward_seconds);
        for (Recompute policy : problem.policies) {
          back = std::min(back, layer.input_grad_seconds + layer.recompute_seconds(policy));
        }
      }
      forward_.push_back(forward_.back() + forward);
      back_.push_back(back_.back() + back);
    }
  }

  double Seconds(const LayerChoice& choice) const {
    return StageBound({.in = forward_[choice.from],
                       .chained = micro_batches_ * (choice.forward + choice.input_grad),
                       .weights = micro_batches_ * choice.weight_grad,
                       .tail = choice.tail,
                       .out = back_[choice.from]},
                      splits_);
  }

 private:
  int micro_batches_;
  bool splits_;
  // Seconds that one micro-batch spends in the layers before each, at the least that any policy and
  // device makes them.
  std::vector<double> forward_ = {0}, back_ = {0};
};

}  // namespace

LayerChoice MakeChoice(const PartitionProblem& problem, int stage, int first, int end,
                       Recompute policy) {
  const RangeCost cost = problem.Price(stage, first, end, policy);
  LayerChoice choice{first, end,       policy, cost.forward, cost.input_grad, cost.weight_grad,
                     0,     cost.tail, 0};
  if (stage + 1 < problem.stages()) choice.send = problem.SendSeconds(stage, cost.output_bytes);
  return choice;
}

LayerChoices::LayerChoices(const PartitionProblem& problem, const Feasible& feasible,
                           double cutoff) {
  const ChoiceBounds bounds(problem);
  const int stages = problem.stages(), layers = problem.layer_count();
  const std::vector<int> cuts(stages + 1, layers + 1);
  Reset(cuts);
  int64_t left = kMostChoices;
  for (int stage = 0; stage < stages; ++stage) {
    const int last_first = stage == 0 ? 0 : layers - (stages - stage);
    for (int first = stage; first <= last_first; ++first) {
      const int last_end = layers - (stages - 1 - stage);
      for (int end = stage + 1 == stages ? last_end : first + 1; end <= last_end; ++end) {
        double fastest = kInfinity;
        for (Recompute policy : feasible.Policies(stage, first, end)) {
          LayerChoice choice = MakeChoice(problem, stage, first, end, policy);
          choice.bound = bounds.Seconds(choice);
          fastest = std::min(fastest, choice.bound);
          if (choice.bound < cutoff) Add(stage, choice);
        }
        if (--left == 0) {
          complete_ = false;
          Reset(cuts);
          return;
        }
        if (fastest != kInfinity && fastest >= cutoff) break;  // a longer range only takes longer
      }
    }
  }
  Index();
}

}  // namespace sluice
