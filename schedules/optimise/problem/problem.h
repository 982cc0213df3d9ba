#ifndef SLUICE_SCHEDULES_OPTIMISE_PROBLEM_PROBLEM_H_
#define SLUICE_SCHEDULES_OPTIMISE_PROBLEM_PROBLEM_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/optimise/problem/request.h"

// What the search works on. All micro-batches cost the same, so renumbering them at any stage
// changes nothing, and the k-th F (I, W) of a stage may be taken to be that of micro-batch k. An
// order is then one sequence of (op, stage) per rank, and what a rank holds at any point follows
// from its own sequence alone. A B is the next I of its stage together with its
// W. It runs where no other W of the stage waits, so that sums are in the order of micro-batches. A
// timetable may do without that, where another micro-batch has its I before the B and its W behind
// it: I1 B0 W1. No order stands for it; what is proved holds for it, too (`sums_in_any_order`).
namespace sluice::optimise {

// Sums of bytes may differ in their last bits with the order of adding.
constexpr double kSlack = 1e-12;
// Durations and objectives that differ by less than this share are the same but for rounding.
constexpr double kRounding = 1e-10;

struct Step {
  Op op;  // F, I, W, or B where it may be better than I and W
  uint16_t stage;
  friend bool operator==(const Step&, const Step&) = default;
};
// B is I and W in one.
inline bool RunsInputGrad(Op op) { return op == Op::kInputGrad || op == Op::kBackward; }
inline bool RunsWeightGrad(Op op) { return op == Op::kWeightGrad || op == Op::kBackward; }
using Order = std::vector<std::vector<Step>>;  // [rank][position]

// One kind of memory: activations, or bytes.
struct MemoryRule {
  std::vector<double> held;  // [stage] from the start of F to the end of I, or B
  // [stage] from then until the end of W; more than `held` where F keeps little.
  std::vector<double> kept;
  std::vector<double> limit;  // [rank]
  // [rank] room that dispatchers leave for the most that one I of its stages adds, as far as the
  // limit has it besides one micro-batch at each of them.
  std::vector<double> reserve;

  // By how much `step` changes what its rank holds.
  double change(const Step& step) const {
    if (step.op == Op::kForward) return held[step.stage];
    if (step.op == Op::kBackward) return -held[step.stage];
    return step.op == Op::kInputGrad ? kept[step.stage] - held[step.stage] : -kept[step.stage];
  }
};

struct Problem {
  Placement placement = Placement::Looped(1);
  int ranks = 0;
  int stages = 0;
  int micro_batches = 0;
  std::vector<std::vector<int>> stages_of;                         // [rank], ascending
  std::vector<double> forward, input_grad, weight_grad, backward;  // [stage]
  // [stage] whether B may be better than I and W: shorter, or without the memory that W needs. No
  // other B is needed.
  std::vector<char> fused;
  std::vector<double> hop;  // [stage] latency between stage and stage + 1, 0 on one rank
  std::vector<MemoryRule> memory;
  // [rank] when its first action can start at the earliest: the first micro-batch must come to it.
  std::vector<double> head;
  // [rank] what the objective subtracts from the end of a rank: its head for the span, 0 for the
  // makespan. The first action of every rank is F of its lowest stage for micro-batch 0, and starts
  // at the head.
  std::vector<double> grace;
  // Whether a B may also run where W of its stage wait, which is one more of each then as before.
  // An order with such a B is no timetable, but each timetable has an order with its times: its
  // k-th F (I, W) of a stage, whatever the micro-batch, is that of k.
  bool sums_in_any_order = false;
  // What a problem of one rank knows of the others (OneRankOf). In a whole problem the way back is
  // `hop`, and there is nothing else.
  std::vector<double> way_back;  // [stage] latency between the I of stage + 1 and that of stage
  double turn = 0;               // latency between the F of the last stage and its I
  std::vector<double> arrival;   // [micro_batch] before this, F of the first stage cannot start
  std::vector<double> after;  // [micro_batch] the least time after the end of I of the first stage

  size_t cell(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(micro_batches) +
           static_cast<size_t>(micro_batch);
  }
  double duration(const Step& step) const {
    return step.op == Op::kForward     ? forward[step.stage]
           : step.op == Op::kInputGrad ? input_grad[step.stage]
           : step.op == Op::kBackward  ? backward[step.stage]
                                       : weight_grad[step.stage];
  }
  bool fuses(int stage) const { return fused[stage] != 0; }
  bool fuses_somewhere() const { return std::count(fused.begin(), fused.end(), 1) > 0; }
};

// InvalidArgument for costs, counts or limits that make no sense; ResourceExhausted, with the least
// memory that would do, when a rank cannot hold one micro-batch at each of its stages, without which
// no micro-batch gets through.
absl::StatusOr<Problem> MakeProblem(const OptimiseRequest& request);

// The problem with the least that each (stage, micro-batch) can cost, whether it runs B or I and W:
// no order of `problem` has a lower objective than the best of this one, which fuses nothing. Where
// nothing is fused, that is the problem itself.
Problem CheapestOf(Problem problem);

// Seconds that the busiest rank works on one micro-batch: no steady state is faster.
double BusiestWork(const Problem& problem);

// What a rank holds, by each memory rule, as its sequence goes by.
class RankMemory {
 public:
  RankMemory(const Problem& problem, int rank)
      : problem_(problem), rank_(rank), held_(problem.memory.size(), 0) {}

  // Whether `step` could run now.
  bool Fits(const Step& step) const;
  // Whether F of `stage` could run now besides the reserve.
  bool Admits(int stage) const;
  void Apply(const Step& step);  // runs `step`

 private:
  const Problem& problem_;
  int rank_;
  std::vector<double> held_;
};

// The order as a timetable, with the micro-batches numbered in order at every stage.
Timetable TimetableOf(const Problem& problem, const Order& order);
// The order of a compute-only timetable, with I and W for each B of a stage that does not fuse, and
// for each B while a W of its stage waits.
Order OrderOf(const Problem& problem, const Timetable& table);

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_PROBLEM_PROBLEM_H_
