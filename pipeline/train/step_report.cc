#include "pipeline/train/step_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr double kNanosecond = 1e-9;
// Per stage: total seconds and count of F, B, I, W and RECOMPUTE.
constexpr size_t kOps = 5;

size_t OpSlot(Op op) {
  switch (op) {
    case Op::kForward:
      return 0;
    case Op::kBackward:
      return 1;
    case Op::kInputGrad:
      return 2;
    case Op::kWeightGrad:
      return 3;
    default:
      return 4;
  }
}

// Slots that every report starts with.
enum Fixed : size_t { kAsked, kBroken, kBusy, kStart, kEnd, kFixedSlots };

// Clocks that differ by less are taken for one machine's; those of two count from when they were
// started.
constexpr double kOneClock = 1.0;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

StepReporter::StepReporter(const RunPlan& plan, int parameter_count)
    : stages_(static_cast<size_t>(plan.lowered.placement.stages())),
      stages_on_ranks_(StagesOnRanks(plan)),
      places_(PlacesOf(plan)),
      pipeline_ranks_(static_cast<size_t>(plan.ranks())),
      micro_batches_(static_cast<size_t>(plan.lowered.micro_batches)),
      step_micro_batches_(static_cast<size_t>(plan.global_micro_batches())),
      steps_(static_cast<size_t>(plan.window_steps())),
      parameters_(static_cast<size_t>(parameter_count)),
      mine_(kFixedSlots + 2 * kOps * stages_ + 2 * micro_batches_ + steps_ * parameters_),
      all_(mine_.size() * static_cast<size_t>(plan.world_size())) {}

absl::Status StepReporter::AlignClocks(Communicator& communicator, absl::Duration timeout) {
  absl::Status status = communicator.Barrier(Instant::Now() + timeout);
  if (!status.ok()) return status;
  const double mine =
      Seconds();  // as near to the same moment on all ranks as a barrier brings them
  std::vector<double> all(static_cast<size_t>(communicator.size()));
  status = communicator.AllGather(absl::MakeConstSpan(&mine, 1), absl::MakeSpan(all),
                                  Instant::Now() + timeout);
  clock_ahead_ = std::abs(mine - all.front()) < kOneClock ? 0 : mine - all.front();
  return status;
}

absl::StatusOr<StepReport> StepReporter::Gather(const Executor& executor,
                                                absl::Span<const double> norms, Asked asked,
                                                Communicator& communicator, absl::Duration timeout,
                                                int64_t micro_batches) {
  absl::Status status = Exchange(executor, norms, asked, communicator, timeout);
  if (!status.ok()) return status;
  StepReport report = DecodePass();
  DecodeStep(executor, 0, micro_batches < 0 ? places_.size() : static_cast<size_t>(micro_batches),
             &report);
  return report;
}

absl::StatusOr<std::vector<StepReport>> StepReporter::GatherSteps(
    const Executor& executor, absl::Span<const double> norms, Asked asked,
    Communicator& communicator, absl::Duration timeout, int64_t steps) {
  absl::Status status = Exchange(executor, norms, asked, communicator, timeout);
  if (!status.ok()) return status;
  StepReport share = DecodePass();
  share.makespan /= static_cast<double>(steps);
  share.busy /= static_cast<double>(steps);
  std::vector<StepReport> reports(static_cast<size_t>(steps), share);
  for (size_t step = 0; step < reports.size(); ++step)
    DecodeStep(executor, step, step_micro_batches_, &reports[step]);
  return reports;
}

absl::Status StepReporter::Exchange(const Executor& executor, absl::Span<const double> norms,
                                    Asked asked, Communicator& communicator,
                                    absl::Duration timeout) {
  Encode(executor, norms, asked);
  return communicator.AllGather(mine_, absl::MakeSpan(all_), Instant::Now() + timeout);
}

void StepReporter::Encode(const Executor& executor, absl::Span<const double> norms, Asked asked) {
  std::fill(mine_.begin(), mine_.end(), 0.0);
  const std::vector<ActionTime>& times = executor.times();
  const std::vector<Action>& actions = executor.program().actions;
  for (size_t a = 0; a < actions.size(); ++a) {
    const double seconds = static_cast<double>(times[a].busy()) * kNanosecond;
    const size_t slot = kFixedSlots + 2 * (actions[a].stage * kOps + OpSlot(actions[a].op));
    mine_[kBusy] += seconds;
    if (times[a].end != 0) {
      mine_[kEnd] =
          std::max(mine_[kEnd], static_cast<double>(times[a].end) * kNanosecond - clock_ahead_);
    }
    if (!TakesTime(actions[a].op) || times[a].end == 0) continue;  // an update, or not run
    mine_[slot] += seconds;
    mine_[slot + 1] += 1;
  }
  mine_[kAsked] = static_cast<double>(asked);
  mine_[kBroken] = broken_weight_;
  mine_[kStart] = static_cast<double>(times.front().start) * kNanosecond - clock_ahead_;
  const size_t losses = kFixedSlots + 2 * kOps * stages_;
  for (size_t mb = 0; mb < micro_batches_; ++mb) {
    mine_[losses + mb] = executor.losses()[mb];
    mine_[losses + micro_batches_ + mb] = static_cast<double>(executor.correct()[mb]);
  }
  std::copy(norms.begin(), norms.end(),
            mine_.begin() + static_cast<std::ptrdiff_t>(losses + 2 * micro_batches_));
}

// Over the ranks. Where only one rank has a value and the others 0, this is that value to the bit.
double StepReporter::Sum(size_t slot) const {
  double sum = 0;
  for (size_t at = slot; at < all_.size(); at += mine_.size()) sum += all_[at];
  return sum;
}

// Likewise, over the ranks of one replica.
double StepReporter::SumOf(size_t replica, size_t slot) const {
  double sum = 0;
  const size_t first = replica * pipeline_ranks_;
  for (size_t rank = first; rank < first + pipeline_ranks_; ++rank)
    sum += all_[rank * mine_.size() + slot];
  return sum;
}

std::vector<StepReporter::Place> StepReporter::PlacesOf(const RunPlan& plan) {
  const auto replicas = static_cast<size_t>(plan.replicas());
  const auto micro_batches = static_cast<size_t>(plan.lowered.micro_batches);
  std::vector<Place> places(replicas * micro_batches);
  for (size_t replica = 0; replica < replicas; ++replica) {
    for (size_t local = 0; local < micro_batches; ++local) {
      const int number = plan.GlobalMicroBatch(static_cast<int>(replica), static_cast<int>(local));
      places[static_cast<size_t>(number)] = {.replica = replica, .local = local};
    }
  }
  return places;
}

StepReport StepReporter::DecodePass() const {
  StepReport report;
  report.busy = Sum(kBusy);
  double asked = 0;
  double start = std::numeric_limits<double>::infinity();
  double end = -start;
  for (size_t at = 0; at < all_.size(); at += mine_.size()) {
    start = std::min(start, all_[at + kStart]);
    end = std::max(end, all_[at + kEnd]);
    asked = std::max(asked, all_[at + kAsked]);
    if (all_[at + kBroken] >= 0 && report.broken_rank < 0) {
      report.broken_rank = static_cast<int>(at / mine_.size());
      report.broken_weight = static_cast<int>(all_[at + kBroken]);
    }
  }
  report.asked = static_cast<Asked>(asked);
  report.makespan = end - start;

  std::vector<double>* ops[kOps] = {&report.costs.forward, &report.costs.backward,
                                    &report.costs.input_grad, &report.costs.weight_grad,
                                    &report.costs.recompute};
  for (size_t stage = 0; stage < stages_; ++stage) {
    for (size_t op = 0; op < kOps; ++op) {
      const size_t slot = kFixedSlots + 2 * (stage * kOps + op);
      const double count = Sum(slot + 1);
      ops[op]->push_back(count > 0 ? Sum(slot) / count : 0);
    }
  }
  report.costs.send.assign(stages_ - 1, 0.0);
  for (const StageOnRank& at : stages_on_ranks_)
    report.rank_seconds.push_back(MicroBatchSeconds(at));
  return report;
}

double StepReporter::MicroBatchSeconds(const StageOnRank& at) const {
  const size_t first = static_cast<size_t>(at.rank) * mine_.size() + kFixedSlots +
                       2 * kOps * static_cast<size_t>(at.stage);
  double seconds = 0;
  for (size_t slot = first; slot < first + 2 * kOps; slot += 2)
    seconds += all_[slot + 1] > 0 ? all_[slot] / all_[slot + 1] : 0;
  return seconds;
}

void StepReporter::DecodeStep(const Executor& executor, size_t step, size_t count,
                              StepReport* report) const {
  report->window_step = static_cast<int>(step);
  const size_t losses = kFixedSlots + 2 * kOps * stages_;
  const size_t first = step * step_micro_batches_;
  for (size_t mb = first; mb < first + count; ++mb) {
    const Place& place = places_[mb];
    report->loss_sum += SumOf(place.replica, losses + place.local);
    report->targets += executor.targets()[mb];
    report->correct += std::llround(SumOf(place.replica, losses + micro_batches_ + place.local));
  }
  // Where none counts, there is no loss.
  report->loss = static_cast<float>(report->loss_sum /
                                    static_cast<double>(std::max<int64_t>(report->targets, 1)));
  const size_t norms = losses + 2 * micro_batches_ + step * parameters_;
  double squares = 0;
  for (size_t p = 0; p < parameters_; ++p) squares += Sum(norms + p);
  report->grad_norm = std::sqrt(squares);
}

}  // namespace sluice
