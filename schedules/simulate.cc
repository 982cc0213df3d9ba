#include "schedules/simulate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/critical_path.h"
#include "schedules/dependency.h"
#include "schedules/memory_profile.h"

namespace sluice {
namespace {

constexpr double kNotYet = -1;

// Runs every rank as far as it gets, one after the other, until all are done or none can go on. A
// rank that is blocked is tried again only when something arrives for it, so the work is linear in
// actions + messages.
class Simulator {
 public:
  Simulator(const Timetable& timetable, const StageCosts& costs)
      : table_(timetable),
        costs_(costs),
        lowered_(timetable.lowered()),
        cell_(timetable),
        activation_at_(cell_.size(), kNotYet),
        gradient_at_(cell_.size(), kNotYet),
        done_(cell_.size(), 0),
        clock_(timetable.rows.size(), 0),
        queued_(timetable.rows.size(), true) {}

  absl::StatusOr<Simulation> Run();

 private:
  static constexpr uint8_t kForwardDone = 1;
  static constexpr uint8_t kInputGradDone = 2;

  absl::Status CheckActions() const;
  void Advance(int rank);
  // When `action` has its inputs; nothing when they are not made yet.
  std::optional<double> InputsAt(const Action& action) const;
  double Duration(const Action& action) const;
  void Finish(const Action& action, double end);
  // Makes what `action` (F, B, I or a send) passes on available to its consumer, and wakes the rank
  // that may wait.
  void Deliver(std::vector<double>& available, const Action& action, int consumer, double time);
  absl::Status StuckError() const;
  void Summarize();

  const Timetable& table_;
  const StageCosts& costs_;
  const bool lowered_;
  const CellIndex cell_;
  // When the output of F (the gradient made by B or I) left its stage, by cell of the producer.
  std::vector<double> activation_at_;
  std::vector<double> gradient_at_;
  std::vector<uint8_t> done_;
  std::vector<double> clock_;
  std::vector<bool> queued_;
  std::vector<int> queue_;
  Simulation result_;
};

absl::StatusOr<Simulation> Simulator::Run() {
  if (absl::Status ok = CheckActions(); !ok.ok()) return ok;
  const int ranks = static_cast<int>(table_.rows.size());
  result_.rows.resize(table_.rows.size());
  for (int rank = ranks - 1; rank >= 0; --rank) {
    result_.rows[rank].reserve(table_.rows[rank].size());
    queue_.push_back(rank);
  }
  while (!queue_.empty()) {
    const int rank = queue_.back();
    queue_.pop_back();
    queued_[rank] = false;
    Advance(rank);
  }
  if (absl::Status ok = StuckError(); !ok.ok()) return ok;
  Summarize();
  result_.lower_bound = MakespanLowerBound(table_.placement, table_.micro_batches, costs_);
  // The two sums round differently, so a makespan that meets the bound may seem a hair below it.
  result_.lower_bound = std::min(result_.lower_bound, result_.makespan);
  if (result_.lower_bound > 0) result_.gap = result_.makespan / result_.lower_bound - 1;
  MeasureMemory(costs_, &result_);
  result_.critical_path = FindCriticalPath(result_, table_.placement, costs_);
  return std::move(result_);
}

absl::Status Simulator::CheckActions() const {
  const int stages = table_.placement.stages();
  for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
    const auto& row = table_.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const Action& action = row[i];
      if (action.op == Op::kIdle) continue;
      const bool whole_stage = action.op == Op::kReduceGrad || action.op == Op::kOptimizerStep;
      const bool known =
          action.stage < stages &&
          (whole_stage || (action.micro_batch >= 0 && action.micro_batch < table_.micro_batches));
      const bool paired =
          !action.overlaps_next || (i + 1 < row.size() && IsCompute(action.op) &&
                                    IsCompute(row[i + 1].op) && !row[i + 1].overlaps_next);
      if (known && paired) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, ", position ", i, ": ", ToString(action),
                       known ? " overlaps nothing that computes"
                             : absl::StrCat(" is outside ", stages, " stages and ",
                                            table_.micro_batches, " micro-batches")));
    }
  }
  return absl::OkStatus();
}

void Simulator::Advance(int rank) {
  const auto& row = table_.rows[rank];
  auto& timed = result_.rows[rank];
  double& clock = clock_[rank];
  while (timed.size() < row.size()) {
    const Action& action = row[timed.size()];
    const std::optional<double> inputs = InputsAt(action);
    if (!inputs.has_value()) return;
    double start = std::max(clock, *inputs);
    double duration = Duration(action);
    if (!action.overlaps_next) {
      clock = start + duration;
      timed.push_back({action, start, clock});
      Finish(action, clock);
      continue;
    }
    const Action& partner = row[timed.size() + 1];
    const std::optional<double> partner_inputs = InputsAt(partner);
    if (!partner_inputs.has_value()) return;
    start = std::max(start, *partner_inputs);
    duration = costs_.overlap >= 0 ? costs_.overlap : duration + Duration(partner);
    clock = start + duration;
    for (const Action& half : {action, partner}) {
      timed.push_back({half, start, clock});
      Finish(half, clock);
    }
  }
}

std::optional<double> Simulator::InputsAt(const Action& action) const {
  if (!IsCompute(action.op)) return 0;
  const uint8_t done = done_[cell_(action)];
  if (action.op == Op::kWeightGrad) {
    return (done & kInputGradDone) ? std::optional<double>(0) : std::nullopt;
  }
  if (MakesInputGrad(action.op) && !(done & kForwardDone)) return std::nullopt;
  const int producer = ProducerStage(table_.placement, action.op, action.stage);
  if (producer == kNoStage) return 0;
  const auto& available = action.op == Op::kForward ? activation_at_ : gradient_at_;
  const double left = available[cell_(producer, action.micro_batch)];
  if (left == kNotYet) return std::nullopt;
  const bool same_rank = table_.placement.rank(producer) == table_.placement.rank(action.stage);
  return same_rank ? left : left + costs_.send[std::min<int>(producer, action.stage)];
}

double Simulator::Duration(const Action& action) const {
  switch (action.op) {
    case Op::kForward:
    case Op::kRecompute:
      return costs_.forward[action.stage];
    case Op::kBackward:
      return costs_.backward[action.stage];
    case Op::kInputGrad:
      return costs_.input_grad[action.stage];
    case Op::kWeightGrad:
      return costs_.weight_grad[action.stage];
    default:
      return 0;
  }
}

void Simulator::Finish(const Action& action, double end) {
  const auto crosses = [&](int consumer) {
    return table_.placement.rank(consumer) != table_.placement.rank(action.stage);
  };
  if (IsSend(action.op)) {
    const bool forward = action.op == Op::kSendForward;
    const int consumer = PeerStage(table_.placement, action.op, action.stage);
    if (consumer == kNoStage) return;
    Deliver(forward ? activation_at_ : gradient_at_, action, consumer, end);
    return;
  }
  if (action.op != Op::kForward && !MakesInputGrad(action.op)) return;
  const bool forward = action.op == Op::kForward;
  done_[cell_(action)] |= forward ? kForwardDone : kInputGradDone;
  const int consumer = ConsumerStage(table_.placement, action.op, action.stage);
  // In a lowered table what crosses to another rank leaves with its send.
  if (consumer == kNoStage || (lowered_ && crosses(consumer))) return;
  Deliver(forward ? activation_at_ : gradient_at_, action, consumer, end);
}

void Simulator::Deliver(std::vector<double>& available, const Action& action, int consumer,
                        double time) {
  available[cell_(action)] = time;
  const int waiting = table_.placement.rank(consumer);
  if (queued_[waiting]) return;
  queued_[waiting] = true;
  queue_.push_back(waiting);
}

absl::Status Simulator::StuckError() const {
  for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
    const size_t position = result_.rows[rank].size();
    if (position == table_.rows[rank].size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the table can never finish: rank ", rank, " waits for ever at position ", position, " (",
        ToString(table_.rows[rank][position]), "); 'sluice schedule check' lists why"));
  }
  return absl::OkStatus();
}

void Simulator::Summarize() {
  double total_work = 0;
  for (const auto& row : result_.rows) {
    double work = 0;
    double first = -1;
    double last = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const TimedAction& timed = row[i];
      result_.makespan = std::max(result_.makespan, timed.end);
      if (!IsCompute(timed.action.op) && timed.action.op != Op::kRecompute) continue;
      // A pair's halves share their time: count it once.
      const bool second_half = i > 0 && row[i - 1].action.overlaps_next;
      if (!second_half) work += timed.end - timed.start;
      if (first < 0) first = timed.start;
      last = timed.end;
    }
    result_.work.push_back(work);
    total_work += work;
    if (first >= 0) result_.span = std::max(result_.span, last - first);
  }
  const double ranks = static_cast<double>(result_.rows.size());
  if (result_.makespan > 0) result_.bubble = 1 - total_work / (ranks * result_.makespan);
  if (result_.span > 0) result_.span_bubble = 1 - total_work / (ranks * result_.span);
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const Timetable& timetable, const StageCosts& costs) {
  if (absl::Status ok = CheckCosts(costs, timetable.placement.stages()); !ok.ok()) return ok;
  if (timetable.micro_batches < 1 ||
      static_cast<int>(timetable.rows.size()) != timetable.placement.ranks()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a timetable of ", timetable.micro_batches, " micro-batches with ", timetable.rows.size(),
        " rows for ", timetable.placement.ranks(), " ranks cannot run"));
  }
  return Simulator(timetable, costs).Run();
}

}  // namespace sluice
