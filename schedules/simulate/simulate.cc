#include "schedules/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"
#include "schedules/dependency.h"
#include "schedules/simulate/bound.h"
#include "schedules/simulate/critical_path.h"
#include "schedules/simulate/memory_profile.h"
#include "schedules/simulate/stage_links.h"

namespace sluice {
namespace {

constexpr double kNotYet = -1;
// What a rank waits for: nothing, or 2 * cell for an activation and 2 * cell + 1 for a gradient.
constexpr size_t kNothing = std::numeric_limits<size_t>::max();

// Runs every rank as far as it can, one after the other, until all are done or none can go on. A
// rank that is blocked is tried again only when the result that it waits for arrives, so the work
// is linear in the actions.
class Simulator {
 public:
  Simulator(const Timetable& timetable, const StageCosts& costs, Detail detail)
      : table_(timetable),
        costs_(costs),
        keeps_rows_(detail == Detail::kEveryAction),
        lowered_(timetable.lowered()),
        cell_(timetable),
        channels_(timetable.placement),
        links_(LinksOf(timetable.placement, channels_, &costs)),
        link_free_(channels_.size(), 0),
        activation_at_(cell_.size(), kNotYet),
        gradient_at_(cell_.size(), kNotYet),
        done_(cell_.size(), 0),
        recomputes_(static_cast<size_t>(timetable.placement.stages()), 0),
        ranks_(timetable.rows.size()) {}

  absl::StatusOr<Simulation> Run();

 private:
  static constexpr uint8_t kForwardDone = 1;
  static constexpr uint8_t kInputGradDone = 2;

  struct Rank {
    size_t next = 0;  // position
    size_t waits_for = kNothing;
    double clock = 0;
    double work = 0;
    double first_start = -1;  // of an action that takes time
    double last_end = 0;
  };

  absl::Status CheckActions() const;
  bool Known(const Action& action) const;
  void Advance(int rank);
  // When the inputs of `action` arrive; kNotYet, and what it waits for, where they are not made yet.
  double InputsAt(const Action& action, size_t& waits_for) const;
  void Record(Rank& rank, int number, const Action& action, double start, double end);
  void Finish(const Action& action, double end);
  void Deliver(const Action& action, bool forward, const StageLink& link, double time);
  absl::Status StuckError() const;
  absl::Status Summarize();

  const Timetable& table_;
  const StageCosts& costs_;
  const bool keeps_rows_;
  const bool lowered_;
  const CellIndex cell_;
  const Channels channels_;
  const std::vector<StageLinks> links_;
  std::vector<double> link_free_;  // [channel]
  // When the output of F (the gradient made by B or I) left its stage, by cell of the producer.
  std::vector<double> activation_at_;
  std::vector<double> gradient_at_;
  std::vector<uint8_t> done_;
  std::vector<int> recomputes_;  // [stage]
  std::vector<Rank> ranks_;
  std::vector<int> queue_;
  Simulation result_;
};

absl::StatusOr<Simulation> Simulator::Run() {
  if (absl::Status ok = CheckActions(); !ok.ok()) return ok;
  if (keeps_rows_) result_.rows.resize(table_.rows.size());
  for (int rank = static_cast<int>(ranks_.size()) - 1; rank >= 0; --rank) {
    if (keeps_rows_) result_.rows[rank].reserve(table_.rows[rank].size());
    queue_.push_back(rank);
  }
  while (!queue_.empty()) {
    const int rank = queue_.back();
    queue_.pop_back();
    Advance(rank);
  }
  if (absl::Status ok = StuckError(); !ok.ok()) return ok;
  if (absl::Status ok = Summarize(); !ok.ok()) return ok;
  MeasureMemory(table_, costs_, &result_);
  if (keeps_rows_) FindCriticalPath(table_.placement, costs_, &result_);
  return std::move(result_);
}

bool Simulator::Known(const Action& action) const {
  if (RunsNothing(action.op)) return true;
  if (action.stage >= table_.placement.stages()) return false;
  if (action.op == Op::kReduceGrad || action.op == Op::kOptimizerStep) return true;
  return action.micro_batch >= 0 && action.micro_batch < table_.micro_batches;
}

absl::Status Simulator::CheckActions() const {
  for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
    const auto& row = table_.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const Action& action = row[i];
      const bool known = Known(action);
      const bool paired =
          !action.overlaps_next || (i + 1 < row.size() && IsCompute(action.op) &&
                                    IsCompute(row[i + 1].op) && !row[i + 1].overlaps_next);
      if (known && paired) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, ", position ", i, ": ", ToString(action),
          known ? std::string(" overlaps nothing that computes")
                : absl::StrCat(" is outside ", Counted(table_.placement.stages(), "stage"), " and ",
                               Counted(table_.micro_batches, "micro-batch"))));
    }
  }
  return absl::OkStatus();
}

void Simulator::Advance(int number) {
  const auto& row = table_.rows[number];
  Rank& rank = ranks_[number];
  for (; rank.next < row.size(); ++rank.next) {
    const Action& action = row[rank.next];
    const double inputs = InputsAt(action, rank.waits_for);
    if (inputs == kNotYet) return;
    double start = std::max(rank.clock, inputs);
    double duration = costs_.Of(action);
    if (!action.overlaps_next) {
      rank.clock = start + duration;
      Record(rank, number, action, start, rank.clock);
      Finish(action, rank.clock);
      continue;
    }
    const Action& partner = row[rank.next + 1];
    const double partner_inputs = InputsAt(partner, rank.waits_for);
    if (partner_inputs == kNotYet) return;
    start = std::max(start, partner_inputs);
    duration = costs_.overlap >= 0 ? costs_.overlap : duration + costs_.Of(partner);
    rank.clock = start + duration;
    Record(rank, number, action, start, rank.clock);
    if (keeps_rows_) result_.rows[number].push_back({partner, start, rank.clock});
    Finish(action, rank.clock);
    Finish(partner, rank.clock);
    ++rank.next;
  }
  rank.waits_for = kNothing;
}

double Simulator::InputsAt(const Action& action, size_t& waits_for) const {
  if (!IsCompute(action.op)) return 0;
  const size_t cell = cell_(action);
  const uint8_t done = done_[cell];
  waits_for = kNothing;  // if one of the next two checks fails, the order of the row is wrong
  if (action.op == Op::kWeightGrad) return (done & kInputGradDone) ? 0 : kNotYet;
  const bool forward = action.op == Op::kForward;
  if (!forward && !(done & kForwardDone)) return kNotYet;
  const StageLink& from = forward ? links_[action.stage].previous : links_[action.stage].next;
  if (from.stage == kNoStage) return 0;
  const size_t producer = cell_(from.stage, action.micro_batch);
  const double left = forward ? activation_at_[producer] : gradient_at_[producer];
  if (left != kNotYet) return left + from.latency;
  waits_for = 2 * producer + (forward ? 0 : 1);
  return kNotYet;
}

inline void Simulator::Record(Rank& rank, int number, const Action& action, double start,
                              double end) {
  if (keeps_rows_) result_.rows[number].push_back({action, start, end});
  if (!TakesTime(action.op)) return;
  if (action.op == Op::kRecompute) ++recomputes_[action.stage];
  rank.work += end - start;
  if (rank.first_start < 0) rank.first_start = start;
  rank.last_end = end;
}

inline void Simulator::Finish(const Action& action, double end) {
  const bool forward = action.op == Op::kForward || action.op == Op::kSendForward;
  if (!forward && !MakesInputGrad(action.op) && action.op != Op::kSendBackward) return;
  const StageLinks& links = links_[action.stage];
  const StageLink& to = forward ? links.next : links.previous;
  if (!IsSend(action.op)) {
    done_[cell_(action)] |= forward ? kForwardDone : kInputGradDone;
    // In a lowered table, a result for another rank leaves with its send.
    if (lowered_ && to.crosses) return;
  }
  if (to.stage != kNoStage) Deliver(action, forward, to, end);
}

// Makes the result of `action` (F, B, I or a send) available to its consumer, and wakes the rank
// that waits for it. The result leaves when its link is free.
inline void Simulator::Deliver(const Action& action, bool forward, const StageLink& link,
                               double time) {
  if (link.crosses && !costs_.link_busy.empty()) {
    time = std::max(time, link_free_[link.to]);
    link_free_[link.to] = time + link.link_busy;
  }
  const size_t cell = cell_(action);
  (forward ? activation_at_ : gradient_at_)[cell] = time;
  Rank& waiting = ranks_[link.rank];
  if (waiting.waits_for != 2 * cell + (forward ? 0 : 1)) return;
  waiting.waits_for = kNothing;
  queue_.push_back(link.rank);
}

absl::Status Simulator::StuckError() const {
  for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
    const size_t position = ranks_[rank].next;
    if (position == table_.rows[rank].size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the table can never finish: rank ", rank, " waits for ever at position ", position, " (",
        ToString(table_.rows[rank][position]), "); 'sluice schedule check' lists why"));
  }
  return absl::OkStatus();
}

absl::Status Simulator::Summarize() {
  double total_work = 0;
  for (const Rank& rank : ranks_) {
    result_.makespan = std::max(result_.makespan, rank.clock);
    result_.work.push_back(rank.work);
    total_work += rank.work;
    if (rank.first_start < 0) continue;
    result_.span = std::max(result_.span, rank.last_end - rank.first_start);
  }
  if (!std::isfinite(result_.makespan) || !std::isfinite(total_work)) {
    return absl::InvalidArgumentError("the costs are too large: their sum is not finite");
  }
  const double ranks = static_cast<double>(ranks_.size());
  if (result_.makespan > 0) result_.bubble = 1 - total_work / (ranks * result_.makespan);
  if (result_.span > 0) result_.span_bubble = 1 - total_work / (ranks * result_.span);
  for (const double work : result_.work) {
    result_.utilisation.push_back(result_.makespan > 0 ? work / result_.makespan : 0);
  }
  result_.lower_bound =
      MakespanLowerBound(table_.placement, table_.micro_batches, costs_, recomputes_);
  // The two sums are rounded differently, so a makespan that meets the bound may seem slightly
  // below it.
  result_.lower_bound = std::min(result_.lower_bound, result_.makespan);
  result_.gap = GapOf(result_.makespan, result_.lower_bound);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Timetable& timetable, const StageCosts& costs,
                                    Detail detail) {
  if (absl::Status ok = CheckCosts(costs, timetable.placement.stages()); !ok.ok()) return ok;
  if (timetable.micro_batches < 1 ||
      static_cast<int>(timetable.rows.size()) != timetable.placement.ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a timetable of ", Counted(timetable.micro_batches, "micro-batch"), " with ",
                     Counted(timetable.rows.size(), "row"), " for ",
                     Counted(timetable.placement.ranks(), "rank"), " cannot run"));
  }
  return Simulator(timetable, costs, detail).Run();
}

}  // namespace sluice
