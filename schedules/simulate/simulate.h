#ifndef SLUICE_SCHEDULES_SIMULATE_SIMULATE_H_
#define SLUICE_SCHEDULES_SIMULATE_SIMULATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schedules/timetable.h"

namespace sluice {

// What actions cost. Vectors are indexed by stage; durations are in any one unit (seconds, or a
// paper's units).
struct StageCosts {
  std::vector<double> forward;      // F
  std::vector<double> input_grad;   // I
  std::vector<double> weight_grad;  // W
  std::vector<double> backward;     // B; usually I + W
  std::vector<double> recompute;    // RECOMPUTE; empty: as long as F
  // Latency from the end of the producing action on stage s to the earliest start of its consumer
  // on stage s + 1 (and back, for gradients) when they are on different ranks; occupies no compute.
  // Size stages - 1; the entry between two copies of the model is not used.
  std::vector<double> send;
  // Of `send`, the time during which a message holds its link (its bytes / the bandwidth): messages
  // from one rank to another take turns. Size stages - 1, or empty: a link carries any number at
  // once.
  std::vector<double> link_busy;
  // Duration of an overlapped pair; negative: the sum of its two actions.
  double overlap = -1;
  // Bytes that one micro-batch holds at each stage from the start of F to the end of B or I; may be
  // empty.
  std::vector<double> activation_bytes;
  // Of these, the bytes that stay after I until the end of W; may be empty.
  std::vector<double> weight_grad_bytes;
  // Of these, the bytes that stay between F and RECOMPUTE, where the table has one; may be empty.
  std::vector<double> checkpoint_bytes;

  // Same costs at each of `stages` stages; B = I + W.
  static StageCosts Uniform(int stages, double f, double i, double w, double send_latency = 0);

  // The duration of `action`: 0 for all but F, B, I, W and RECOMPUTE.
  double Of(const Action& action) const {
    switch (action.op) {
      case Op::kForward:
        return forward[action.stage];
      case Op::kBackward:
        return backward[action.stage];
      case Op::kInputGrad:
        return input_grad[action.stage];
      case Op::kWeightGrad:
        return weight_grad[action.stage];
      case Op::kRecompute:
        return recompute.empty() ? forward[action.stage] : recompute[action.stage];
      default:
        return 0;
    }
  }
};

// InvalidArgument when a vector has the wrong length for `stages`, or a value is negative or not
// finite.
absl::Status CheckCosts(const StageCosts& costs, int stages);

// Divides the durations of each stage by the speed of the rank that holds it (2: twice as fast).
// Requires a speed above 0 per rank, and no overlap duration, which could not differ by rank.
void ApplyRankSpeeds(const Placement& placement, const std::vector<double>& speeds,
                     StageCosts* costs);

struct TimedAction {
  Action action;
  double start = 0;
  double end = 0;
};

struct Simulation {
  // [rank][position]; idle cells are included, with start == end.
  std::vector<std::vector<TimedAction>> rows;
  double makespan = 0;
  // 1 - sum of work / (ranks * makespan).
  double bubble = 0;
  // The longest rank span, from a rank's first start to its last end; span_bubble divides by it
  // instead of by the makespan (what the zero-bubble papers print).
  double span = 0;
  double span_bubble = 0;
  // MakespanLowerBound, and how far the makespan lies above it: makespan / lower_bound - 1.
  double lower_bound = 0;
  double gap = 0;
  std::vector<double> work;         // [rank] busy time
  std::vector<double> utilisation;  // [rank] work / makespan
  // [rank] most (stage, micro-batch) pairs held at once, from the start of F to the end of B (of
  // W).
  std::vector<int> peak_activations;
  std::vector<double> peak_bytes;          // [rank], empty without bytes
  std::vector<TimedAction> critical_path;  // from a start at time 0 to the makespan
  // Why each of these did not start earlier: "start", "rank", "message" or "link"; see Cause in
  // critical_path.h, which also says it of any other action.
  std::vector<const char*> critical_path_why;
};

// How much of a run to keep: a table of 10^8 actions has no room for the times of each.
enum class Detail {
  kEveryAction,
  kSummary,  // rows and critical_path stay empty
};

// When each action runs if every rank executes its row in order, each action as soon as the
// previous one on its rank has ended and its inputs have arrived. Works on lowered and compute-only
// tables alike (sends and receives are instantaneous for the rank; the edge's latency lies between
// them). Linear in the number of actions.
// InvalidArgument when costs have the wrong length, are negative or not finite (or add up to that),
// or the table can never finish (a cycle).
absl::StatusOr<Simulation> Simulate(const Timetable& timetable, const StageCosts& costs,
                                    Detail detail = Detail::kEveryAction);

// No timetable of these stages on these ranks with `micro_batches` finishes earlier than this: over
// all ranks, the least time before the rank can start + its total work + the least time after it
// can finish (see the .cc for the proof). `recomputes`: how many micro-batches each stage rebuilds
// by a RECOMPUTE, in all these timetables; empty: none. [stage]
double MakespanLowerBound(const Placement& placement, int micro_batches, const StageCosts& costs,
                          const std::vector<int>& recomputes = {});
// The same where ranks share a stage: `micro_batches` of each stage are those of the one of its
// ranks that has the most, and `recomputes` those of the same rank. [stage]
double MakespanLowerBound(const Placement& placement, std::vector<int> micro_batches,
                          const StageCosts& costs, const std::vector<int>& recomputes = {});

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_SIMULATE_H_
