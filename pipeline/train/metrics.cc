#include "pipeline/train/metrics.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "models/layers/adapted_layers.h"
#include "models/spec/costs/describe_layers.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

// The running mean of `count` earlier vectors and one more.
void MixIn(std::vector<double>& mean, const std::vector<double>& value, int64_t count) {
  mean.resize(value.size());
  for (size_t i = 0; i < value.size(); ++i)
    mean[i] += (value[i] - mean[i]) / static_cast<double>(count + 1);
}

}  // namespace

MetricsKeeper::MetricsKeeper(const RunPlan& plan)
    : plan_(plan),
      table_(ComputeOnly(plan.lowered)),
      dealt_(plan.has_stage_members() ? std::make_optional<DealtTimetable>(table_, plan.deal)
                                      : std::nullopt),
      flops_per_step_(FlopsPerMicroBatch(DescribeAdapted(plan.request.spec, plan.request.batch,
                                                         plan.request.adaptation)) *
                      plan.global_micro_batches()),
      tokens_per_step_(
          static_cast<double>(plan.request.batch.rows() * plan.global_micro_batches())) {
  AgeSteps();
  for (const ArenaLayout& arena : plan.arenas) peak_bytes_.push_back(arena.memory.total);
}

void MetricsKeeper::AgeSteps() {
  const std::vector<Staleness> micro_batches = StalenessOf(table_);
  const auto step = static_cast<size_t>(plan_.step_micro_batches());
  for (size_t mb = 0; mb < micro_batches.size(); ++mb) {
    if (mb % step == 0) staleness_.emplace_back();
    staleness_.back().max = std::max(staleness_.back().max, micro_batches[mb].max);
    staleness_.back().mean += micro_batches[mb].mean / static_cast<double>(step);
  }
}

StepMetrics MetricsKeeper::Record(int64_t step, const StepReport& report, double lr,
                                  double step_seconds) {
  const double outside = step_seconds - report.makespan;
  if (learned_ == 0) Learn(report, outside);  // nothing earlier to predict from
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = report.loss;
  metrics.grad_norm = report.grad_norm;
  metrics.lr = lr;
  metrics.step_seconds = step_seconds;
  metrics.tokens_per_second = tokens_per_step_ / step_seconds;
  metrics.flops_per_second = flops_per_step_ / step_seconds;
  metrics.bubble = report.bubble(plan_.world_size());
  Predict(&metrics);
  if (!staleness_.empty()) metrics.staleness = StalenessAt(report);
  metrics.peak_bytes = peak_bytes_;
  metrics.arena_bytes = arena_bytes_;
  // The first step warms up caches and pages: it is a stand-in until a second one has been
  // measured.
  if (step > 1) Learn(report, outside);
  return metrics;
}

Staleness MetricsKeeper::StalenessAt(const StepReport& report) const {
  return staleness_.empty() ? Staleness() : staleness_[static_cast<size_t>(report.window_step)];
}

StepMetrics MetricsKeeper::Brought(const AgreedStep& step, double lr) const {
  StepMetrics metrics;
  metrics.step = step.step;
  metrics.loss = static_cast<float>(step.loss);
  metrics.grad_norm = step.grad_norm;
  metrics.lr = lr;
  metrics.peak_bytes = peak_bytes_;
  metrics.arena_bytes = arena_bytes_;
  return metrics;
}

void MetricsKeeper::Predict(StepMetrics* metrics) const {
  if (dealt_) {
    const Simulation times = SimulateDealt(*dealt_, costs_);
    metrics->predicted_bubble = times.bubble;
    metrics->predicted_step_seconds = times.makespan + outside_;
  } else if (absl::StatusOr<Simulation> simulation = Simulate(table_, costs_); simulation.ok()) {
    metrics->predicted_bubble = simulation->bubble;
    metrics->predicted_step_seconds = simulation->makespan / plan_.window_steps() + outside_;
  }
}

void MetricsKeeper::Learn(const StepReport& report, double outside) {
  if (learned_ == 1) learned_ = 0;
  MixIn(costs_.forward, report.costs.forward, learned_);
  MixIn(costs_.backward, report.costs.backward, learned_);
  MixIn(costs_.input_grad, report.costs.input_grad, learned_);
  MixIn(costs_.weight_grad, report.costs.weight_grad, learned_);
  MixIn(costs_.recompute, report.costs.recompute, learned_);
  costs_.send = report.costs.send;
  outside_ += (outside - outside_) / static_cast<double>(learned_ + 1);
  ++learned_;
}

std::string LossHex(float loss) { return absl::StrFormat("0x%08x", std::bit_cast<uint32_t>(loss)); }

}  // namespace sluice
