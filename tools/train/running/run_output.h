#ifndef SLUICE_TOOLS_TRAIN_RUNNING_RUN_OUTPUT_H_
#define SLUICE_TOOLS_TRAIN_RUNNING_RUN_OUTPUT_H_

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/command.h"
#include "tools/text_writer.h"
#include "tools/train/log/metrics_log.h"
#include "tools/train/running/compiled_job.h"
#include "tools/train/settings/kept_settings.h"
#include "tools/train/train_output.h"

namespace sluice {

// What the run prints to stdout, by a thread that may wait for the reader, and keeps beside its
// checkpoints.
class RunOutput {
 public:
  // `relay`: as TextWriter's.
  explicit RunOutput(const TrainQuestion& question, int relay = -1);

  void Start(const CompiledJob& compiled, const TrainQuestion& question);
  // Instead, where another process has begun the output of this run.
  void TakeOver(const CompiledJob& compiled) {
    output_->TakeOver(*compiled.plan, compiled.job.options.training.steps);
  }
  // Of the run `compiled`, which must outlive them.
  TrainEvents Events(const CompiledJob& compiled);
  // This rank's group goes on where another one has ended.
  void Continued(const ContinuedRun& run);
  // What was shown of later steps than run.step was wrong.
  void Corrected(const CorrectedRun& run);
  void Gained(const ReplanGain& gain) { output_->Gained(gain); }

  // The end of a run, of which `written` says whether its other files were written. An error where
  // they, its results or its logs could not be.
  absl::Status Done(const TrainSummary& summary, absl::Status written);
  // The same of a run by commands, whose portions have been shown.
  absl::Status Finish();
  // Of a run by commands: it is ready for the first one; how one of its portions ended.
  void Ready(const CompiledJob& compiled, int rank);
  void Ended(const absl::StatusOr<TrainSummary>& summary);
  // The end of a run that failed. Whoever paused the output may have left.
  void Failed() { writer_.Finish(kReaderPatience).IgnoreError(); }

 private:
  // After its first error nothing more is told to a log.
  struct Log {
    std::unique_ptr<MetricsLog> log;
    absl::Status status = absl::OkStatus();
  };

  void KeepSettings(const CompiledJob& compiled);
  void Notice(const std::string& text) { writer_.WriteTo(STDERR_FILENO, NoticeLine(text)); }
  void Tell(absl::FunctionRef<absl::Status(MetricsLog&)> tell);

  static constexpr absl::Duration kReaderPatience = absl::Seconds(5);

  TextWriter writer_;
  std::unique_ptr<TrainOutput> output_;
  const bool overwrites_;
  // A rank 0 that was lost may have shown it before any other rank had it whole; -1: none.
  int64_t may_be_shown_ = -1;
  KeptSettings settings_;
  std::vector<Log> logs_;
};

// Writes the trace of a run, `trace_text`, where that was asked for, and prints its end, after which
// nothing is left to do. Returns the exit code.
int ReportRun(const TrainQuestion& question, const TrainResult& result, RunOutput* output,
              absl::FunctionRef<absl::StatusOr<std::string>()> trace_text);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_RUNNING_RUN_OUTPUT_H_
