#ifndef SLUICE_SCHEDULES_SIMULATE_STAGE_COSTS_H_
#define SLUICE_SCHEDULES_SIMULATE_STAGE_COSTS_H_

#include <vector>

#include "absl/status/status.h"
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
  // The part of `send` during which a message holds its link (its bytes / the bandwidth), so that
  // messages from one rank to another take turns. Size stages - 1; empty: a link carries any number
  // of messages at the same time.
  std::vector<double> link_busy;
  // Duration of an overlapped pair; negative: the sum of its two actions.
  double overlap = -1;
  // Bytes that one micro-batch holds at each stage from the start of F to the end of B or I; may be
  // empty.
  std::vector<double> activation_bytes;
  // Bytes that it holds from the end of I to the end of W; may be empty. More than the activations
  // where F keeps little because I computes the rest again.
  std::vector<double> weight_grad_bytes;
  // Of the activations, the bytes that stay between F and RECOMPUTE, where the table has one; may
  // be empty.
  std::vector<double> checkpoint_bytes;

  // The same costs at each of `stages` stages; B = I + W.
  static StageCosts Uniform(int stages, double f, double i, double w, double send_latency = 0);

  // The duration of `action`: 0 for all ops except F, B, I, W and RECOMPUTE.
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

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_STAGE_COSTS_H_
