#ifndef SLUICE_PARTITIONER_SEARCH_BRANCH_AND_BOUND_H_
#define SLUICE_PARTITIONER_SEARCH_BRANCH_AND_BOUND_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "partitioner/bounds/chain_pool.h"
#include "partitioner/bounds/stage_choices.h"
#include "partitioner/search/search_limits.h"

namespace sluice {

// Depth-first branch and bound over what each stage could be, first stage first: for layers of a
// chain and for cuts of a graph alike. Of the choices at a cut, the one with the least bound comes
// first. The bound of a partial assignment is the largest of what is proved of its choices, of the
// least to the end, and, for each chain of actions collected, of its exact seconds so far and its
// least from there. Each whole assignment may add the chain that decides its step.
template <typename Choice>
class BranchAndBound {
 public:
  using Chain = typename Choice::Chain;
  using Path = std::vector<Choice>;  // [stage] what was chosen so far

  // What only the caller knows.
  struct Caller {
    std::function<double()> target;  // seconds from which on a bound is of no interest
    // Whether the rank of the last stage chosen has memory for its stages chosen so far.
    std::function<bool(const Path&)> fits;
    // Takes a whole assignment that fits; returns its critical chain where that is to be collected.
    std::function<std::optional<Chain>(const Path&)> leaf;
  };

  // All must outlive the search. Choices that are left out for want of budget are told to `limits`.
  BranchAndBound(StageChoices<Choice>* choices, ChainPool<Choice>* chains, SearchLimits* limits,
                 Caller caller)
      : choices_(*choices), chains_(*chains), limits_(*limits), caller_(std::move(caller)) {}

  void Run() {
    bounds_to_end_ = choices_.BoundsToEnd();
    spent_.assign(static_cast<size_t>(choices_.stages()) + 1, {});
    spent_[0].assign(static_cast<size_t>(chains_.size()), 0);
    Branch(0, 0);
  }

 private:
  // The least seconds of an assignment that continues path_ with `choice`. Fills spent_ for the
  // stage after it. Not inlined: the search spends most of its time in this loop, which loses its
  // registers to Branch() otherwise.
  ABSL_ATTRIBUTE_NOINLINE double BoundOf(const Choice& choice, int stage) {
    const size_t next = choices_.Cell(stage + 1, choice.to);
    double bound = std::max(choice.bound, bounds_to_end_[next]);
    const auto chains = static_cast<size_t>(chains_.size());
    spent_[stage + 1].resize(chains);
    const double* before = spent_[stage].data();
    double* spent = spent_[stage + 1].data();
    const auto* counts = chains == 0 ? nullptr : chains_.CountsIn(stage).data();
    const std::vector<double>* to_end = chains_.to_end().data();
    const Choice taken = choice;  // a copy, which writing to `spent` cannot change
    for (size_t chain = 0; chain < chains; ++chain) {
      const double seconds = before[chain] + taken.Seconds(counts[chain]);
      spent[chain] = seconds;
      bound = std::max(bound, seconds + to_end[chain][next]);
    }
    limits_.steps += chains_.size();
    return bound;
  }

  void Branch(int stage, int cut) {
    if (stage == choices_.stages()) return Leaf();
    const double target = caller_.target();
    std::vector<std::pair<double, const Choice*>> children;
    for (const Choice& choice : choices_.From(stage, cut)) {
      if (!(choice.bound < target)) continue;
      const double bound = BoundOf(choice, stage);
      if (bound < target) children.emplace_back(bound, &choice);
    }
    std::stable_sort(children.begin(), children.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [bound, choice] : children) Visit(*choice, stage, bound);
  }

  void Visit(const Choice& choice, int stage, double bound) {
    const double target = caller_.target();
    if (bound >= target) return;
    if (limits_.OutOfBudget()) return limits_.LeaveOut(bound);
    if (BoundOf(choice, stage) >= target) return;  // chains found since may say more
    path_.push_back(choice);
    if (caller_.fits(path_)) Branch(stage + 1, choice.to);
    path_.pop_back();
  }

  void Leaf() {
    std::optional<Chain> chain = caller_.leaf(path_);
    if (!chain) return;
    chains_.Add(*std::move(chain), &choices_);
    double spent = 0;
    for (size_t stage = 0; stage <= path_.size(); ++stage) {
      spent_[stage].resize(static_cast<size_t>(chains_.size()));
      spent_[stage].back() = spent;
      if (stage == path_.size()) break;
      spent += path_[stage].Seconds(chains_.CountsIn(static_cast<int>(stage)).back());
    }
  }

  StageChoices<Choice>& choices_;
  ChainPool<Choice>& chains_;
  SearchLimits& limits_;
  const Caller caller_;
  Path path_;
  std::vector<double> bounds_to_end_;       // [cell] seconds
  std::vector<std::vector<double>> spent_;  // [stage][chain] seconds on the path before the stage
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_BRANCH_AND_BOUND_H_
