#ifndef SLUICE_PARTITIONER_SEARCH_CHAIN_DESCENT_H_
#define SLUICE_PARTITIONER_SEARCH_CHAIN_DESCENT_H_

#include <cstdint>
#include <vector>

#include "partitioner/bounds/known_chains.h"
#include "partitioner/bounds/layer_choices.h"
#include "partitioner/memory/feasible.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// Moves layers and changes policies so that known chains of actions get shorter, without
// simulating: a layer goes from any stage to any other (those between shift by one), or a stage
// recomputes more or less. What is made smaller, move by move, is the sum over chains of the square
// of what each takes beyond a target, so that all long ones count, not only the longest.
class ChainDescent {
 public:
  ChainDescent(const PartitionProblem& problem, const Feasible& feasible)
      : problem_(problem), feasible_(feasible), chains_(problem.stages()) {}

  void Learn(const ChainCounts& chain) { chains_.Add(chain); }
  int known() const { return chains_.size(); }

  struct Found {
    StageAssignment assignment;  // fits
    double seconds = 0;          // of the longest known chain
  };
  // From `start`, which fits, until no chain takes more than `target` seconds, no move helps, or
  // `steps` come to `budget`.
  Found Run(const StageAssignment& start, double target, int64_t budget, int64_t* steps);

 private:
  // Another length or policy of a stage.
  struct Change {
    int stage = 0;
    Recompute policy = Recompute::kNone;
    LayerChoice choice;
    std::vector<double> seconds;  // [chain] more than now
    double slope = 0;             // of the penalty
  };
  struct Move {
    int from = 0, to = 0;  // stages; the same one where only a policy changes
    Recompute from_policy = Recompute::kNone, to_policy = Recompute::kNone;
    double penalty = 0;
  };

  void Measure();
  double Penalty() const;
  double PenaltyWith(const Change& one, const Change* other) const;
  void AddChanges(int stage, int first, int end, std::vector<Change>* changes) const;
  void OfferLengths(bool up, std::vector<Move>* moves, int64_t* steps) const;
  void OfferPolicies(std::vector<Move>* moves, int64_t* steps) const;
  void Offer(const Change& from, const Change& to, std::vector<Move>* moves) const;
  bool Take(const Move& move, int64_t* steps);

  const PartitionProblem& problem_;
  const Feasible& feasible_;
  KnownChains chains_;
  double target_ = 0;
  StageAssignment now_;
  std::vector<LayerChoice> choices_;  // [stage]
  std::vector<double> seconds_;       // [chain]
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_CHAIN_DESCENT_H_
