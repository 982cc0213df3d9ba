#include "schedules/dealt_times.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "schedules/dependency.h"

namespace sluice {
namespace {

constexpr double kNotYet = -1;

class DealtRun {
 public:
  DealtRun(const Timetable& table, const StageDeal& deal, const StageCosts& costs)
      : placement_(table.placement),
        costs_(costs),
        cell_(table),
        rows_(DealRows(table, deal)),
        next_(rows_.size(), 0),
        clock_(rows_.size(), 0),
        forward_(cell_.size(), kNotYet),
        gradient_(cell_.size(), kNotYet) {}

  DealtTimes Run(const StageDeal& deal, const std::vector<double>& tail) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < rows_.size(); ++rank) moved = Advance(rank) || moved;
    }
    DealtTimes times;
    times.makespan = *std::max_element(clock_.begin(), clock_.end());
    for (size_t stage = 0; stage < tail.size(); ++stage) {
      const auto first = clock_.begin() + deal.first_rank(static_cast<int>(stage));
      const double end = *std::max_element(first, first + deal.replicas(static_cast<int>(stage)));
      times.makespan = std::max(times.makespan, end + tail[stage]);
    }
    if (times.makespan > 0)
      times.bubble =
          std::max(0.0, 1 - work_ / (static_cast<double>(rows_.size()) * times.makespan));
    return times;
  }

 private:
  // Runs the rank as far as it gets; false where that is nowhere.
  bool Advance(size_t rank) {
    const size_t start = next_[rank];
    for (; next_[rank] < rows_[rank].size(); ++next_[rank]) {
      const Action& action = rows_[rank][next_[rank]];
      const double input = InputAt(action);
      if (input == kNotYet) break;
      const double seconds = Seconds(action);
      clock_[rank] = std::max(clock_[rank], input) + seconds;
      work_ += seconds;
      if (action.op == Op::kForward) forward_[cell_(action)] = clock_[rank];
      if (MakesInputGrad(action.op)) gradient_[cell_(action)] = clock_[rank];
    }
    return next_[rank] != start;
  }

  double InputAt(const Action& action) const {
    const int producer = ProducerStage(placement_, action.op, action.stage);
    if (producer == kNoStage) return 0;
    const std::vector<double>& made = action.op == Op::kForward ? forward_ : gradient_;
    const double ready = made[cell_(producer, action.micro_batch)];
    if (ready == kNotYet || costs_.send.empty()) return ready;
    return ready + costs_.send[std::min<int>(producer, action.stage)];
  }

  double Seconds(const Action& action) const {
    switch (action.op) {
      case Op::kForward:
        return costs_.forward[action.stage];
      case Op::kBackward:
        return costs_.backward[action.stage];
      case Op::kInputGrad:
        return costs_.input_grad[action.stage];
      default:
        return costs_.weight_grad[action.stage];
    }
  }

  const Placement& placement_;
  const StageCosts& costs_;
  const CellIndex cell_;
  const std::vector<std::vector<Action>> rows_;  // [rank]
  std::vector<size_t> next_;                     // [rank] position
  std::vector<double> clock_;                    // [rank]
  std::vector<double> forward_;                  // [cell] when the output of F was there
  std::vector<double> gradient_;                 // [cell] likewise of B or I
  double work_ = 0;
};

}  // namespace

DealtTimes SimulateDealt(const Timetable& table, const StageDeal& deal, const StageCosts& costs,
                         const std::vector<double>& tail) {
  return DealtRun(table, deal, costs).Run(deal, tail);
}

std::vector<int> DealtInFlight(const Timetable& table, const StageDeal& deal) {
  std::vector<int> most(static_cast<size_t>(deal.stages()));
  for (const std::vector<Action>& row : DealRows(table, deal)) {
    int held = 0;
    for (const Action& action : row) {
      int& of_stage = most[action.stage];
      if (action.op == Op::kForward) of_stage = std::max(of_stage, ++held);
      if (action.op == Op::kBackward || action.op == Op::kWeightGrad) --held;
    }
  }
  return most;
}

}  // namespace sluice
