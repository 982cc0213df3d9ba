#ifndef SLUICE_SCHEDULES_OPTIMISE_PARTIAL_H_
#define SLUICE_SCHEDULES_OPTIMISE_PARTIAL_H_

#include <vector>

#include "schedules/optimise/bounds.h"
#include "schedules/optimise/problem.h"
#include "schedules/optimise/relaxation.h"

namespace sluice::optimise {

// An action that could be put next on its rank.
struct Option {
  Step step{};
  int rank = 0;
  double start = 0;
  double end = 0;
};

// The beginning of an order, with times: a prefix of every rank's sequence, grown and shrunk one
// action at a time.
class PartialOrder {
 public:
  PartialOrder(const Problem& problem, const Relaxation& relaxation);

  // Every action whose inputs are in the prefix and which fits in memory.
  const std::vector<Option>& FindOptions();
  void Push(const Option& option);
  void Pop();

  bool complete() const { return steps_.size() == total_; }
  double value() const;  // of a complete order
  // No completion of this prefix does better.
  double Bound();
  // What all completions depend on: `key` says how far every stage is, `times` when the ranks are
  // free and when the results that wait for a consumer arrive. Of two prefixes with the same key,
  // the one whose times are all at most those of the other dominates: the other can be dropped.
  void Describe(std::vector<uint8_t>* key, std::vector<double>* times) const;
  Order order() const;

 private:
  struct Undo {
    Option option;
    double rank_free;
  };

  double ForwardArrival(int stage, int k) const;
  double GradientArrival(int stage, int k) const;
  void FindHeads();
  double RankBound(int rank);

  const Problem& problem_;
  const Relaxation& relaxation_;
  size_t total_;
  std::vector<int> forwards_, gradients_, weights_;  // [stage]
  std::vector<double> free_;                         // [rank]
  // [cell] ends of the actions that have run and, after FindHeads, earliest ends of the others.
  std::vector<double> forward_end_, gradient_end_, weight_end_;
  std::vector<std::vector<double>> held_;  // [rule][rank]
  std::vector<Undo> steps_;
  std::vector<Option> options_;
  std::vector<Job> jobs_;
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_PARTIAL_H_
