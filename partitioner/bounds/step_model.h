#ifndef SLUICE_PARTITIONER_BOUNDS_STEP_MODEL_H_
#define SLUICE_PARTITIONER_BOUNDS_STEP_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/bounds/chain_counts.h"
#include "partitioner/step_costs.h"
#include "schedules/timetable.h"

namespace sluice {

// A timetable compiled for one question asked very often: how long does a step take with these
// costs? The answer is Simulate()'s makespan with B = I + W, or later where a rank, after its last
// action, has its stages' tails to do; finding an exact partition asks it thousands of times, and
// this neither allocates nor sorts. Not thread-safe: calls share work areas.
class StepModel {
 public:
  // InvalidArgument when the timetable is lowered or can never finish. B is priced as I + W.
  static absl::StatusOr<StepModel> Compile(const Timetable& timetable);

  // Seconds of a step. Uses forward, input_grad, weight_grad, send and tail of `costs`.
  double Makespan(const StepCosts& costs);
  // The chain that decides the makespan; where a rank waited for two things equally long, the one
  // on its own rank.
  ChainCounts CriticalChain(const StepCosts& costs);
  // [rank] the longest chain that stays on the rank from where it first gets there to where it
  // leaves for good, if the rank were `slowdown` times slower; all found in two passes.
  std::vector<ChainCounts> RankChains(const StepCosts& costs, double slowdown);

  // [rank] the longest chain that stays on the rank and the next one from where it first gets there
  // to where it leaves for good; one entry fewer than ranks.
  std::vector<ChainCounts> PairChains(const StepCosts& costs, double slowdown);

  int64_t action_count() const { return static_cast<int64_t>(nodes_.size()); }

 private:
  static constexpr int kNone = -1;

  // An action, or an overlapped pair of two. Nodes are numbered so that whatever one waits for
  // comes before it.
  struct Node {
    int32_t previous = kNone;          // on the same rank
    int32_t data[2] = {kNone, kNone};  // what makes its input
    int32_t edge[2] = {kNone, kNone};  // the edge it comes over; kNone on one rank
    int32_t duration[2] = {0, 0};      // slots; 0 is always 0 seconds
  };
  class Compiler;

  class ChainsByRank;

  void FillSlots(const StepCosts& costs);
  // The rank that is done last.
  int LastRank(const StepCosts& costs, double* seconds) const;

  int stages_ = 0;
  std::vector<Node> nodes_;
  std::vector<int32_t> last_;                // [rank] its last node
  std::vector<std::vector<int>> stages_of_;  // [rank]
  // Work areas: seconds per duration slot, and the end of each node.
  std::vector<double> slots_;
  std::vector<double> ends_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_STEP_MODEL_H_
