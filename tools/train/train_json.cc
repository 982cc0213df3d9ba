#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "models/spec/json_text.h"
#include "tools/train/log/records.h"
#include "tools/train/train_output.h"

namespace sluice {
namespace {

using Json = LogRecord;

class JsonOutput : public TrainOutput {
 public:
  explicit JsonOutput(TextWriter* writer) : writer_(*writer) {}

  void Start(const RunPlan& plan, const Dataset&, int64_t) override {
    overlapped_ = HasOverlappedPairs(plan.lowered);
    mirror_bytes_ = MirrorBytes(plan);
  }

  void TakeOver(const RunPlan& plan, int64_t) override {
    overlapped_ = HasOverlappedPairs(plan.lowered);
  }

  void Resumed(const ResumedRun&) override {}

  void Continued(const ContinuedRun& run) override {
    if (!run.replanned.empty()) {
      Json json = {{"event", "replanned"},
                   {"why", run.replanned},
                   {"stages", run.stages},
                   {"data_parallel", run.replicas},
                   {"partition", run.partition}};
      if (run.bound_seconds > 0) json["bound_seconds"] = run.bound_seconds;
      Print(json);
    }
    Json json = {{"event", "continued"}, {"step", run.step}};
    json["seconds"] = run.seconds ? Json(*run.seconds) : Json();
    json["ranks"] = run.ranks;
    json["from"] = run.source;
    Print(json);
  }

  void Corrected(const CorrectedRun& run) override {
    const auto known = [](int64_t number) { return number < 0 ? Json() : Json(number); };
    Json json = {{"event", "lied"}, {"rank", run.lie.rank}};
    json["stage"] = known(run.lie.stage);
    json["micro_batch"] = known(run.lie.micro_batch);
    json["step"] = run.lie.step;
    json["good_step"] = run.lie.good_step;
    json["from_step"] = run.step;
    json["from"] = run.source;
    if (!run.removed.empty()) json["removed"] = run.removed;
    Print(json);
  }

  void Step(const StepMetrics& m) override { Print(StepRecord(m, mirror_bytes_)); }

  void Evaluated(const Evaluation& e) override { Print(EvaluationRecord(e)); }

  void Saved(const SaveOutcome& saved) override {
    Json json = {{"checkpoint", saved.path}};
    if (!saved.removed.empty()) json["removed"] = saved.removed;
    Print(json);
  }

  void Slow(const SlowStage& slow) override {
    Print({{"slow_at_step", slow.step},
           {"slow_stage", slow.stage},
           {"rank", slow.rank},
           {"factor", slow.factor},
           {"others", slow.others}});
  }

  void Gained(const ReplanGain& gain) override {
    Print({{"event", "gained"},
           {"step", gain.step},
           {"step_seconds", gain.step_seconds},
           {"before", gain.before_seconds},
           {"expected", gain.expected_seconds}});
  }

  void Done(const TrainSummary& s) override {
    Json json = {{"done", true},
                 {"steps", s.steps},
                 {"interrupted", s.interrupted},
                 {"median_step_seconds", s.median_step_seconds},
                 {"tokens_per_second", s.tokens_per_second}};
    if (s.steps_taken > 0) json["final_loss"] = NineDigits(s.final_loss);
    if (s.staleness.has_value()) json["staleness"] = ToRecord(*s.staleness);
    if (overlapped_) json["overlapped_pairs"] = "one after the other";
    if (s.evaluated) {
      json["eval_loss"] = s.eval_loss;
      json["accuracy"] = s.accuracy;
      json["eval_samples"] = s.eval_samples;
    }
    if (s.audits.has_value()) json["audits"] = ToRecord(*s.audits, s.audit_share);
    if (s.hashed) json["weights_hash"] = absl::StrFormat("%016x", s.weights_hash);
    if (!s.checkpoint.empty()) json["checkpoint"] = s.checkpoint;
    Print(json);
  }

 private:
  void Print(const Json& json) { writer_.Write(JsonText(json) + "\n"); }

  TextWriter& writer_;
  bool overlapped_ = false;
  std::vector<int64_t> mirror_bytes_;  // [rank], part of its arena; empty without a mirror
};

}  // namespace

std::unique_ptr<TrainOutput> MakeJsonOutput(TextWriter* writer) {
  return std::make_unique<JsonOutput>(writer);
}

}  // namespace sluice
