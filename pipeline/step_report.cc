#include "pipeline/step_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr double kNanosecond = 1e-9;
// Per stage: total seconds and count of F, B, I and W.
constexpr size_t kOps = 4;

size_t OpSlot(Op op) {
  switch (op) {
    case Op::kForward:
      return 0;
    case Op::kBackward:
      return 1;
    case Op::kInputGrad:
      return 2;
    default:
      return 3;
  }
}

// Slots that every report starts with.
enum Fixed : size_t { kStop, kBusy, kStart, kEnd, kFixedSlots };

}  // namespace

StepReporter::StepReporter(const RunPlan& plan, int world_rank, int parameter_count)
    : stages_(static_cast<size_t>(plan.lowered.placement.stages())),
      plan_(plan),
      replica_(plan.replica(world_rank)),
      micro_batches_(static_cast<size_t>(plan.lowered.micro_batches * plan.replicas())),
      step_micro_batches_(static_cast<size_t>(plan.global_micro_batches())),
      steps_(static_cast<size_t>(plan.window_steps())),
      parameters_(static_cast<size_t>(parameter_count)),
      rows_(static_cast<double>(plan.request.batch.rows())),
      mine_(kFixedSlots + 2 * kOps * stages_ + 2 * micro_batches_ + steps_ * parameters_),
      all_(mine_.size() * static_cast<size_t>(plan.world_size())) {}

absl::StatusOr<StepReport> StepReporter::Gather(const Executor& executor,
                                                absl::Span<const double> norms, bool stop,
                                                Communicator& communicator, absl::Duration timeout,
                                                int64_t micro_batches) {
  absl::Status status = Exchange(executor, norms, stop, communicator, timeout);
  if (!status.ok()) return status;
  StepReport report = DecodePass();
  DecodeStep(0, micro_batches < 0 ? micro_batches_ : static_cast<size_t>(micro_batches), &report);
  return report;
}

absl::StatusOr<std::vector<StepReport>> StepReporter::GatherSteps(
    const Executor& executor, absl::Span<const double> norms, bool stop, Communicator& communicator,
    absl::Duration timeout, int64_t steps) {
  absl::Status status = Exchange(executor, norms, stop, communicator, timeout);
  if (!status.ok()) return status;
  StepReport share = DecodePass();
  share.makespan /= static_cast<double>(steps);
  share.busy /= static_cast<double>(steps);
  std::vector<StepReport> reports(static_cast<size_t>(steps), share);
  for (size_t step = 0; step < reports.size(); ++step)
    DecodeStep(step, step_micro_batches_, &reports[step]);
  return reports;
}

absl::Status StepReporter::Exchange(const Executor& executor, absl::Span<const double> norms,
                                    bool stop, Communicator& communicator, absl::Duration timeout) {
  Encode(executor, norms, stop);
  return communicator.AllGather(mine_, absl::MakeSpan(all_), absl::Now() + timeout);
}

void StepReporter::Encode(const Executor& executor, absl::Span<const double> norms, bool stop) {
  std::fill(mine_.begin(), mine_.end(), 0.0);
  const std::vector<ActionTime>& times = executor.times();
  const std::vector<Action>& actions = executor.program().actions;
  for (size_t a = 0; a < actions.size(); ++a) {
    const double seconds = static_cast<double>(times[a].busy()) * kNanosecond;
    const size_t slot = kFixedSlots + 2 * (actions[a].stage * kOps + OpSlot(actions[a].op));
    mine_[kBusy] += seconds;
    mine_[kEnd] = std::max(mine_[kEnd], static_cast<double>(times[a].end) * kNanosecond);
    if (!IsCompute(actions[a].op) || times[a].end == 0) continue;  // an update, or not run
    mine_[slot] += seconds;
    mine_[slot + 1] += 1;
  }
  mine_[kStop] = stop ? 1 : 0;
  mine_[kStart] = static_cast<double>(times.front().start) * kNanosecond;
  const size_t losses = kFixedSlots + 2 * kOps * stages_;
  for (size_t local = 0; local < executor.losses().size(); ++local) {
    const auto mb = static_cast<size_t>(plan_.GlobalMicroBatch(replica_, static_cast<int>(local)));
    mine_[losses + mb] = executor.losses()[local];
    mine_[losses + micro_batches_ + mb] = static_cast<double>(executor.correct()[local]);
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

StepReport StepReporter::DecodePass() const {
  StepReport report;
  report.stop = Sum(kStop) > 0;
  report.busy = Sum(kBusy);
  double start = std::numeric_limits<double>::infinity();
  double end = -start;
  for (size_t at = 0; at < all_.size(); at += mine_.size()) {
    start = std::min(start, all_[at + kStart]);
    end = std::max(end, all_[at + kEnd]);
  }
  report.makespan = end - start;

  std::vector<double>* ops[kOps] = {&report.costs.forward, &report.costs.backward,
                                    &report.costs.input_grad, &report.costs.weight_grad};
  for (size_t stage = 0; stage < stages_; ++stage) {
    for (size_t op = 0; op < kOps; ++op) {
      const size_t slot = kFixedSlots + 2 * (stage * kOps + op);
      const double count = Sum(slot + 1);
      ops[op]->push_back(count > 0 ? Sum(slot) / count : 0);
    }
  }
  report.costs.send.assign(stages_ - 1, 0.0);
  return report;
}

void StepReporter::DecodeStep(size_t step, size_t count, StepReport* report) const {
  report->window_step = static_cast<int>(step);
  const size_t losses = kFixedSlots + 2 * kOps * stages_;
  const size_t first = step * step_micro_batches_;
  for (size_t mb = first; mb < first + count; ++mb) {
    report->loss_sum += Sum(losses + mb);
    report->correct += std::llround(Sum(losses + micro_batches_ + mb));
  }
  report->loss = static_cast<float>(report->loss_sum / (rows_ * static_cast<double>(count)));
  const size_t norms = losses + 2 * micro_batches_ + step * parameters_;
  double squares = 0;
  for (size_t p = 0; p < parameters_; ++p) squares += Sum(norms + p);
  report->grad_norm = std::sqrt(squares);
}

}  // namespace sluice
