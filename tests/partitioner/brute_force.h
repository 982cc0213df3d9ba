#ifndef SLUICE_TESTS_PARTITIONER_BRUTE_FORCE_H_
#define SLUICE_TESTS_PARTITIONER_BRUTE_FORCE_H_

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "partitioner/partition_problem.h"
#include "schedules/simulate/simulate.h"
#include "tests/partitioner/random_chain.h"

// The naive twin of the searches: tries every assignment of a small problem and simulates it.
namespace sluice {

// Infinite seconds where no assignment fits.
inline constexpr double kNothing = std::numeric_limits<double>::infinity();

inline double SimulatedSeconds(const PartitionProblem& problem, const StageAssignment& assignment) {
  return SimulatedSeconds(*problem.timetable,
                          ToStepCosts(problem, PriceStages(problem, assignment)));
}

// What a rank holds all the time, layer by layer: what is tied to the first layer only where that is
// elsewhere.
inline int64_t HeldBytes(const PartitionProblem& problem, int rank, const Partition& partition) {
  const std::vector<LayerCost>& layers = problem.machines.CostsOf(rank).layers();
  const std::vector<int> stages = problem.timetable->placement.StagesOf(rank);
  const bool has_first = std::find(stages.begin(), stages.end(), 0) != stages.end();
  int64_t held = 0;
  for (int stage : stages) {
    for (int layer = partition[stage].first; layer <= partition[stage].last; ++layer)
      held += layers[layer].parameter_bytes - (has_first ? layers[layer].tied_bytes : 0);
  }
  return held;
}

// The peak bytes of one rank, found by walking along its row: a naive version of InFlight.
inline int64_t WalkedBytes(const Timetable& timetable, int rank,
                           const std::vector<RangeCost>& stages, int64_t held) {
  int64_t most = held;
  for (const Action& action : timetable.rows[rank]) {
    const RangeCost& stage = stages[action.stage];
    if (action.op == Op::kForward) held += stage.activation_bytes;
    const int64_t work =
        action.op == Op::kForward ? stage.forward_workspace_bytes : stage.workspace_bytes;
    if (action.op != Op::kWeightGrad) most = std::max(most, held + work);
    if (action.op == Op::kBackward || action.op == Op::kInputGrad) held -= stage.activation_bytes;
    if (action.op == Op::kInputGrad) held += stage.weight_grad_bytes;
    most = std::max(most, held);
    if (action.op == Op::kWeightGrad) held -= stage.weight_grad_bytes;
  }
  return most;
}

inline bool Fits(const PartitionProblem& problem, const StageAssignment& assignment) {
  if (!problem.machines.limits_memory()) return true;
  const std::vector<RangeCost> stages = PriceStages(problem, assignment);
  for (int rank = 0; rank < problem.timetable->placement.ranks(); ++rank) {
    const int64_t held = HeldBytes(problem, rank, assignment.partition);
    if (WalkedBytes(*problem.timetable, rank, stages, held) > problem.machines.MemoryOf(rank))
      return false;
  }
  return true;
}

// The least of `value` over all assignments that fit.
template <typename Value>
double BruteForce(const PartitionProblem& problem, const Value& value) {
  double best = kNothing;
  ForEachPartition(problem.layer_count(), problem.stages(), [&](const Partition& partition) {
    ForEachRecompute(problem.policies, problem.stages(),
                     [&](const std::vector<Recompute>& recompute) {
                       const StageAssignment assignment{partition, recompute};
                       if (!Fits(problem, assignment)) return;
                       best = std::min(best, value(assignment));
                     });
  });
  return best;
}

// A random chain, schedule and device, with all kinds of limits; small enough for BruteForce().
struct RandomCase {
  explicit RandomCase(uint64_t seed) : random(seed) {
    const int layers = 1 + Below(random, 8);
    problem.machines.costs = *CostTable::CreateShared(RandomLayers(random, layers));
    timetable = RandomTimetable(random, layers);
    problem.timetable = &timetable;
    problem.machines.link = RandomLink(random);
    if (random() % 2 == 0) {
      problem.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    }
    if (random() % 3 != 0) problem.machines.memory_limit = 100 + Below(random, 1500);
    if (random() % 4 == 0) MakeDevicesDiffer(layers);
  }
  // Devices of different speeds and memory, with different links.
  void MakeDevicesDiffer(int layers) {
    const int ranks = timetable.placement.ranks();
    Machines& machines = problem.machines;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<LayerCost> priced = machines.costs->layers();
      for (int i = 0; i < layers; ++i) {
        const double slower = 0.5 + Below(random, 4);
        priced[i].forward_seconds *= slower;
        priced[i].input_grad_seconds *= slower;
        priced[i].weight_grad_seconds *= slower;
      }
      machines.rank_costs.push_back(*CostTable::CreateShared(priced));
    }
    for (int rank = 0; rank < ranks; ++rank) machines.rank_links.push_back(RandomLink(random));
    for (int rank = 0; rank < ranks && machines.memory_limit; ++rank) {
      machines.rank_memory.push_back(100 + Below(random, 1500));
    }
  }
  std::string Describe() const {
    return timetable.name + " ranks " + std::to_string(timetable.placement.ranks()) + " stages " +
           std::to_string(problem.stages()) + " micro-batches " +
           std::to_string(timetable.micro_batches) + " layers " +
           std::to_string(problem.layer_count());
  }
  Random random;
  Timetable timetable;
  PartitionProblem problem;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_BRUTE_FORCE_H_
