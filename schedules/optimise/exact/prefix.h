#ifndef SLUICE_SCHEDULES_OPTIMISE_EXACT_PREFIX_H_
#define SLUICE_SCHEDULES_OPTIMISE_EXACT_PREFIX_H_

#include <cstdint>
#include <vector>

#include "schedules/optimise/problem/bounds.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/relaxation.h"

namespace sluice::optimise {

// An action that could come next on its rank.
struct Option {
  Step step{};
  int rank = 0;
  double start = 0;
  double end = 0;
};

// What all completions of a prefix (the beginning of every rank's sequence, with times) depend on.
// Of two prefixes with the same counts, one whose times are all at most the other's leaves nothing
// to gain from the other.
struct PrefixState {
  std::vector<uint8_t> counts;  // [stage] F done, then [stage] I done, then [stage] W done
  // [rank] the earliest start of what comes next on it; then, for each input that waits for its F or
  // I, the earliest start of that; then, where F may be put off, [stage] whether its F is: 1 or 0.
  std::vector<double> times;
  // [rank] lower bounds of the objective when the rank last ran something; they are not compared.
  std::vector<double> bounds;
};

// Grows prefixes by one action and tells whether what they grow to can still be good enough. Works
// on one prefix at a time.
class Prefix {
 public:
  // `relaxation` is of the cheapest problem (CheapestOf). Only completions with an objective below
  // `limit` count.
  Prefix(const Problem& problem, const Relaxation& relaxation, double limit);

  // The prefix without any action.
  PrefixState Empty() const;
  // Returns false when no completion is below the limit.
  bool Load(const PrefixState& state);

  // The actions of one rank among which its next one may be taken to be, after Giffler and Thompson
  // (1960): of all actions that could come next on any rank, take the one that would end first; some
  // action on its rank that can start before that end comes next on this rank. Empty: this prefix
  // has no completion. Sets `put_off` to a stage whose F, one of these, may also be put off: it
  // would take memory away from the F of the rank's other stages; or to -1.
  void FindBranches(std::vector<Option>* branches, int* put_off);
  // Leaves the rank of `stage` idle for as long as the stage's next F would take, and puts that F off
  // until an F of another stage of the rank has run: for anything else, F could have run in the idle
  // time. Returns false when no completion is below the limit.
  bool PutOff(int stage);

  // Grows the prefix by `option`. Call Shrink before anything else than FindState and FindBound.
  void Grow(const Option& option);
  // Finds the counts and times of the grown prefix. Returns false when no completion is below the
  // limit.
  bool FindState(PrefixState* state);
  // Finds the bounds of the grown prefix, after FindState: anew for the rank of the added action, and
  // as they were for the others, whose turn comes soon enough. Returns false when no completion is
  // below the limit.
  bool FindBound(PrefixState* state);
  // Takes the action of Grow away again.
  void Shrink();

  // The objective of the loaded prefix, where it is complete.
  double value() const;

 private:
  struct Heads {
    std::vector<double> forward, gradient, weight;  // [cell] the earliest start of what is left
  };

  bool Allowed(int stage) const;
  void FindOptions();
  bool FindHeads();
  bool FindForwardHeads(int k);
  bool FindBackwardHeads(int k);
  double RankBound(int rank, const Heads& heads);
  void Describe(PrefixState* state) const;

  const Problem& problem_;
  const Problem& cheapest_;  // what has not run yet may cost so little
  const Relaxation& relaxation_;
  const double limit_;
  const bool may_put_off_;
  const std::vector<int> rank_of_;                      // [stage]
  const std::vector<int> same_weights_;                 // [stage] see StagesWithTheSameWeights
  std::vector<int> forwards_, gradients_, weights_;     // [stage] done
  std::vector<char> put_off_;                           // [stage]
  std::vector<double> free_;                            // [rank]
  std::vector<double> forward_input_, gradient_input_;  // [cell] arrival of an input that waits
  Heads heads_;                                         // of the loaded prefix
  std::vector<double> bounds_;                          // [rank] of the loaded prefix
  Heads grown_;                                         // of the one it grows to
  Option option_;                                       // by which it grows
  double free_before_ = 0;
  std::vector<char> put_off_before_;
  // Kept from one call to the next, for their memory.
  std::vector<Option> options_;
  std::vector<Chain> chains_;
  double tail_ = 0;
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_EXACT_PREFIX_H_
