#include "tools/train/running/run_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "models/spec/json_text.h"
#include "pipeline/trace/format_trace.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/train/bf16_note.h"
#include "tools/train/log/event_log.h"
#include "tools/train/log/run_log.h"
#include "tools/train/running/train_signals.h"

namespace sluice {
namespace {

void OnFailure(int error) {
  if (error == EPIPE) {
    Signals().reader_left.store(true);
    Signals().interrupted.store(true);
    PrintNotice("the reader of standard output is gone; the run ends after this step");
    return;
  }
  PrintNotice(absl::StrCat("standard output cannot be written: ", std::strerror(error),
                           "; the run goes on, and the rest of its output is lost"));
}

// Of a run that has ended so, and of which `written` says whether all of its files were written.
int ExitCodeOfRun(const TrainSummary& summary, const absl::Status& written) {
  if (!written.ok()) return ExitCodeOf(written);
  return summary.interrupted ? kExitInterrupted : kExitDone;
}

}  // namespace

RunOutput::RunOutput(const TrainQuestion& question, int relay)
    : writer_(STDOUT_FILENO, OnFailure, relay),
      output_(question.json ? MakeJsonOutput(&writer_) : MakeTableOutput(&writer_)),
      overwrites_(question.overwrite),
      settings_(question.options.saving.directory) {
  if (!question.tensorboard.empty()) {
    logs_.push_back({MakeEventLog(question.tensorboard, question.options.watching.timeout,
                                  [this](const std::string& text) { Notice(text); })});
  }
  if (question.log.empty()) return;
  absl::StatusOr<std::unique_ptr<MetricsLog>> log = MakeRunLog(question.log);
  logs_.push_back(log.ok() ? Log{*std::move(log)} : Log{nullptr, log.status()});
}

void RunOutput::Tell(absl::FunctionRef<absl::Status(MetricsLog&)> tell) {
  for (Log& log : logs_) {
    if (!log.status.ok()) continue;
    log.status = tell(*log.log);
    if (log.status.ok()) continue;
    Notice(absl::StrCat(DescribeError(log.status), "; the run goes on without its log"));
  }
}

void RunOutput::KeepSettings(const CompiledJob& compiled) {
  const absl::Status status = settings_.Keep(compiled.settings);
  if (!status.ok()) Notice(DescribeError(status));
}

void RunOutput::Start(const CompiledJob& compiled, const TrainQuestion& question) {
  NoteSlowBFloat16(question.kernels.cuda ? "cuda" : "cpu", compiled.plan->request.dtype);
  if (!compiled.job.note.empty()) PrintNotice(compiled.job.note);
  for (const std::string& note : compiled.job.data->notes()) PrintNotice(note);
  output_->Start(*compiled.plan, *compiled.job.data, compiled.job.options.training.steps);
}

TrainEvents RunOutput::Events(const CompiledJob& compiled) {
  TrainOutput* const output = output_.get();
  return {
      .on_resume =
          [output](const ResumedRun& run) {
            output->Resumed(run);
            for (const std::string& line : run.differences) PrintNotice(line);
          },
      // With its first checkpoint at the latest. What is there, of another run or of this one as it
      // was started before, stays until then.
      .on_begin =
          [this, &compiled](int64_t step) {
            Tell([&](MetricsLog& log) {
              return log.Begin(*compiled.plan, compiled.job.costs, step);
            });
            if (!overwrites_ && !settings_.HasOlder()) KeepSettings(compiled);
          },
      .on_step =
          [this, output](const StepMetrics& metrics) {
            // Who took a step that is brought may have shown it, and may be gone.
            const bool again = metrics.brought() || metrics.step == may_be_shown_;
            writer_.SetMark({.step = metrics.step, .unless_shown = again});
            output->Step(metrics);
            // A table has not a row of every step.
            writer_.Tell({.step = metrics.step, .loss = metrics.loss});
            writer_.SetMark({.step = metrics.step});
            Tell([&](MetricsLog& log) { return log.Step(metrics); });
          },
      .on_evaluation =
          [this, output](const Evaluation& evaluation) {
            output->Evaluated(evaluation);
            Tell([&](MetricsLog& log) { return log.Evaluated(evaluation); });
          },
      .on_checkpoint =
          [this, output, &compiled](const SaveOutcome& saved) {
            KeepSettings(compiled);
            output->Saved(saved);
          },
      .on_failed_checkpoint =
          [this](const absl::Status& status) {
            Notice(
                absl::StrCat(DescribeError(status), "; the run goes on without this checkpoint"));
          },
      .on_slow_stage = [output](const SlowStage& slow) { output->Slow(slow); }};
}

void RunOutput::Continued(const ContinuedRun& run) {
  const bool from_memory = run.source == "memory";
  may_be_shown_ = from_memory ? run.step + 1 : -1;
  // The steps after an older state are taken again, and each is shown again, by whichever rank 0.
  if (!from_memory) writer_.SetMark({.step = run.step, .rewinds = true});
  output_->Continued(run);
  if (!from_memory) writer_.SetMark({});
}

void RunOutput::Corrected(const CorrectedRun& run) {
  writer_.SetMark({.step = run.step, .rewinds = true});
  output_->Corrected(run);
  writer_.SetMark({});
}

void RunOutput::Ready(const CompiledJob& compiled, int rank) {
  const RunRequest& request = compiled.plan->request;
  const nlohmann::ordered_json json = {
      {"ready", true},
      {"rank", rank},
      {"model", request.spec.name},
      {"schedule", request.timetable.name},
      {"partition", FormatPartition(request.partition)},
      {"stages", compiled.plan->ranks()},
      {"ranks", compiled.plan->world_size()},
      {"micro_batch_size", request.batch.size},
      {"micro_batches", compiled.plan->global_micro_batches()},
      {"seq", request.batch.seq},
  };
  writer_.Write(JsonText(json) + "\n");
}

void RunOutput::Ended(const absl::StatusOr<TrainSummary>& summary) {
  if (summary.ok()) return output_->Done(*summary);
  const nlohmann::ordered_json json = {{"refused", summary.status().message()},
                                       {"exit_code", ExitCodeOf(summary.status())}};
  writer_.Write(JsonText(json) + "\n");
}

absl::Status RunOutput::Done(const TrainSummary& summary, absl::Status written) {
  for (const Log& log : logs_) written.Update(log.status);
  writer_.SetMark({.exit_code = ExitCodeOfRun(summary, written)});
  output_->Done(summary);
  const absl::Status printed = writer_.Finish();
  // A reader that left has stopped the run, which is no error of its own.
  if (!summary.interrupted || !Signals().reader_left.load()) written.Update(printed);
  return written;
}

absl::Status RunOutput::Finish() {
  absl::Status written = writer_.Finish();
  for (const Log& log : logs_) written.Update(log.status);
  return written;
}

int ReportRun(const TrainQuestion& question, const TrainResult& result, RunOutput* output,
              absl::FunctionRef<absl::StatusOr<std::string>()> trace_text) {
  absl::Status written;
  if (!question.trace.empty()) {
    const absl::StatusOr<std::string> trace = trace_text();
    written = trace.ok() ? WriteOutput(question.trace, *trace) : trace.status();
  }
  if (question.commands) {
    written.Update(output->Finish());
    return written.ok() ? kExitDone : Fail(written);
  }
  written = output->Done(result.summary, std::move(written));
  return written.ok() ? ExitCodeOfRun(result.summary, written) : Fail(written);
}

}  // namespace sluice
