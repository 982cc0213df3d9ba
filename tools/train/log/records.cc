#include "tools/train/log/records.h"

#include <string>

#include "absl/strings/str_format.h"
#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

LogRecord StepRecord(const StepMetrics& metrics, const std::vector<int64_t>& mirror_bytes) {
  LogRecord record = {{"step", metrics.step},
                      {"loss", NineDigits(metrics.loss)},
                      {"loss_hex", LossHex(metrics.loss)},
                      {"grad_norm", metrics.grad_norm},
                      {"lr", metrics.lr},
                      {"step_seconds", metrics.step_seconds},
                      {"tokens_per_second", metrics.tokens_per_second},
                      {"flops_per_second", metrics.flops_per_second},
                      {"bubble", metrics.bubble},
                      {"predicted_bubble", metrics.predicted_bubble},
                      {"predicted_step_seconds", metrics.predicted_step_seconds},
                      {"peak_bytes", metrics.peak_bytes},
                      {"arena_bytes", metrics.arena_bytes}};
  if (!mirror_bytes.empty()) record["mirror_bytes"] = mirror_bytes;
  if (metrics.staleness.has_value()) record["staleness"] = ToRecord(*metrics.staleness);
  return record;
}

LogRecord EvaluationRecord(const Evaluation& evaluation) {
  return {{"evaluated_step", evaluation.step},
          {"eval_loss", evaluation.loss},
          {"accuracy", evaluation.accuracy},
          {"eval_samples", evaluation.samples}};
}

LogRecord ToRecord(const Staleness& staleness) {
  return {{"max", staleness.max}, {"mean", staleness.mean}};
}

LogRecord ToRecord(const AuditCost& cost, double share) {
  return {{"audits", cost.audits},
          {"micro_batches", cost.micro_batches},
          {"seconds", cost.seconds},
          {"share", share}};
}

std::vector<int64_t> MirrorBytes(const RunPlan& plan) {
  std::vector<int64_t> bytes;
  if (!plan.mirrors()) return bytes;
  for (const ArenaLayout& arena : plan.arenas) bytes.push_back(arena.memory.mirror);
  return bytes;
}

double NineDigits(double value) { return std::stod(absl::StrFormat("%.9g", value)); }

}  // namespace sluice
