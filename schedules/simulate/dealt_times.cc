#include "schedules/simulate/dealt_times.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/dependency.h"
#include "schedules/simulate/bound.h"
#include "schedules/simulate/critical_path.h"
#include "schedules/simulate/memory_profile.h"

namespace sluice {
namespace {

constexpr double kNotYet = -1;

class DealtRun {
 public:
  DealtRun(const DealtTimetable& dealt, const StageCosts& costs)
      : dealt_(dealt),
        deal_(dealt.deal),
        placement_(dealt.table.placement),
        costs_(costs),
        cell_(dealt.table),
        rows_(dealt.rows),
        next_(rows_.size(), 0),
        clock_(rows_.size(), 0),
        forward_(cell_.size(), kNotYet),
        gradient_(cell_.size(), kNotYet) {}

  Simulation Run(const std::vector<double>& tail, Detail detail) {
    if (detail == Detail::kEveryAction) run_.rows.resize(rows_.size());
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < rows_.size(); ++rank) moved = Advance(rank) || moved;
    }
    run_.makespan = *std::max_element(clock_.begin(), clock_.end());
    for (size_t stage = 0; stage < tail.size(); ++stage) {
      const auto first = clock_.begin() + deal_.first_rank(static_cast<int>(stage));
      const double end = *std::max_element(first, first + deal_.members(static_cast<int>(stage)));
      run_.makespan = std::max(run_.makespan, end + tail[stage]);
    }
    run_.bubble = BubbleOf(run_.makespan);
    if (detail == Detail::kEveryAction) Describe(DrawnTable(dealt_));
    return std::move(run_);
  }

 private:
  // Runs the rank as far as it can; false where it cannot run a single action.
  bool Advance(size_t rank) {
    const size_t before = next_[rank];
    for (; next_[rank] < rows_[rank].size(); ++next_[rank]) {
      const Action& action = rows_[rank][next_[rank]];
      const double input = InputAt(action);
      if (input == kNotYet) break;
      const double seconds = costs_.Of(action);
      const double start = std::max(clock_[rank], input);
      clock_[rank] = start + seconds;
      work_ += seconds;
      if (!run_.rows.empty()) run_.rows[rank].push_back({action, start, clock_[rank]});
      if (action.op == Op::kForward) forward_[cell_(action)] = clock_[rank];
      if (MakesInputGrad(action.op)) gradient_[cell_(action)] = clock_[rank];
    }
    return next_[rank] != before;
  }

  double InputAt(const Action& action) const {
    const int producer = ProducerStage(placement_, action.op, action.stage);
    if (producer == kNoStage) return 0;
    const std::vector<double>& made = action.op == Op::kForward ? forward_ : gradient_;
    const double ready = made[cell_(producer, action.micro_batch)];
    if (ready == kNotYet || costs_.send.empty()) return ready;
    return ready + costs_.send[std::min<int>(producer, action.stage)];
  }

  double BubbleOf(double seconds) const {
    if (!(seconds > 0)) return 0;
    return std::max(0.0, 1 - work_ / (static_cast<double>(rows_.size()) * seconds));
  }

  // Fills the results that follow from the rows.
  void Describe(const Timetable& drawn) {
    // [stage] how many micro-batches its busiest rank has, and how many of them are rebuilt.
    std::vector<std::pair<int, int>> most(static_cast<size_t>(placement_.stages()));
    for (const std::vector<TimedAction>& row : run_.rows) {
      double work = 0;
      std::vector<std::pair<int, int>> counts(most.size());
      for (const auto& [action, start, end] : row) {
        work += end - start;
        if (action.op == Op::kForward) ++counts[action.stage].first;
        if (action.op == Op::kRecompute) ++counts[action.stage].second;
      }
      run_.work.push_back(work);
      run_.utilisation.push_back(run_.makespan > 0 ? work / run_.makespan : 0);
      if (row.empty()) continue;
      run_.span = std::max(run_.span, row.back().end - row.front().start);
      for (size_t stage = 0; stage < most.size(); ++stage) {
        most[stage] = std::max(most[stage], counts[stage]);
      }
    }
    run_.span_bubble = BubbleOf(run_.span);
    std::vector<int> forwards, recomputes;
    for (const auto& [forwarded, rebuilt] : most) {
      forwards.push_back(forwarded);
      recomputes.push_back(rebuilt);
    }
    run_.lower_bound = std::min(
        run_.makespan, MakespanLowerBound(placement_, std::move(forwards), costs_, recomputes));
    run_.gap = GapOf(run_.makespan, run_.lower_bound);
    MeasureMemory(drawn, costs_, &run_);
    StageCosts costs = costs_;
    costs.send.resize(static_cast<size_t>(placement_.stages()) - 1);
    FindCriticalPath(drawn.placement, costs, &run_, &deal_);
  }

  const DealtTimetable& dealt_;
  const StageDeal& deal_;
  const Placement& placement_;
  const StageCosts& costs_;
  const CellIndex cell_;
  const std::vector<std::vector<Action>>& rows_;  // [rank]
  std::vector<size_t> next_;                      // [rank] position
  std::vector<double> clock_;                     // [rank]
  std::vector<double> forward_;                   // [cell] when the output of F was there
  std::vector<double> gradient_;                  // [cell] likewise of B or I
  double work_ = 0;
  Simulation run_;
};

}  // namespace

Simulation SimulateDealt(const DealtTimetable& dealt, const StageCosts& costs,
                         const std::vector<double>& tail, Detail detail) {
  return DealtRun(dealt, costs).Run(tail, detail);
}

Timetable DrawnTable(const DealtTimetable& dealt) {
  const StageDeal& deal = dealt.deal;
  Timetable drawn = dealt.table;
  std::vector<int> members, first_ranks;
  for (int stage = 0; stage < deal.stages(); ++stage) {
    members.push_back(deal.members(stage));
    first_ranks.push_back(deal.first_rank(stage));
  }
  absl::StrAppend(&drawn.name, ", stages of ", absl::StrJoin(members, "+"));
  drawn.placement = Placement::OfFirstRanks(std::move(first_ranks), deal.ranks());
  drawn.rows = dealt.rows;
  return drawn;
}

std::vector<int> DealtInFlight(const DealtTimetable& dealt) {
  std::vector<int> most(static_cast<size_t>(dealt.deal.stages()));
  for (const std::vector<Action>& row : dealt.rows) {
    int held = 0;
    for (const Action& action : row) {
      int& of_stage = most[action.stage];
      if (action.op == Op::kForward) of_stage = std::max(of_stage, ++held);
      if (MakesWeightGrad(action.op)) --held;
    }
  }
  return most;
}

}  // namespace sluice
