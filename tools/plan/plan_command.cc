#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "partitioner/planning/answer/answer.h"
#include "partitioner/planning/file/megatron_arguments.h"
#include "partitioner/planning/file/plan_file.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/plan/plan_drawing.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_question.h"
#include "tools/plan/plan_table.h"
#include "tools/plan/progress_line.h"
#include "tools/terminal.h"
#include "tools/train/bf16_note.h"

namespace sluice {
namespace {

enum class PlanFormat { kText, kJson, kSvg, kMegatron };

PlanFormat FormatOf(const PlanFlags& flags) {
  const bool json_file = flags.format == "text" && absl::EndsWith(flags.output, ".json");
  if (flags.json || flags.format == "json" || json_file) return PlanFormat::kJson;
  if (flags.format == "svg") return PlanFormat::kSvg;
  return flags.format == "megatron" ? PlanFormat::kMegatron : PlanFormat::kText;
}

absl::StatusOr<std::string> Render(const PlanAnswer& answer, PlanFormat format, bool colour) {
  const Plan& plan = answer.plan;
  switch (format) {
    case PlanFormat::kJson:
      return FormatPlan(plan, answer.context, answer.variants);
    case PlanFormat::kSvg:
      return DrawPlan(plan);
    case PlanFormat::kMegatron:
      return FormatMegatronArguments(plan, answer.context);
    case PlanFormat::kText:
      break;
  }
  return FormatPlanTable(answer, OutputColumns(), colour);
}

absl::StatusOr<PlanAnswer> Answer(const PlanQuestion& question) {
  ProgressLine line;
  return AnswerQuestion(question, [&line](const PlanProgress& progress) { line.Show(progress); });
}

// What the arguments do not say.
void SayForMegatron(const PlanAnswer& answer) {
  PrintNotice(absl::StrCat("note: start ", answer.context.DeviceCount(answer.plan),
                           " processes, so that ", answer.context.data_parallel,
                           answer.context.data_parallel == 1 ? " replica runs" : " replicas run"));
  if (answer.plan.stages.front().recompute != Recompute::kSelective) return;
  PrintNotice(
      "note: Megatron-LM's selective recomputation drops the scores of attention, and keeps other "
      "tensors than were counted here: it will need other memory; --recompute none and full are "
      "the same in both");
}

absl::Status RunPlan(const PlanFlags& flags) {
  if (absl::Status ok = CheckJsonFlag(flags.json, flags.format); !ok.ok()) return ok;
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  if (!question.ok()) return question.status();
  if (question->measures_processor()) {
    NoteSlowBFloat16("cpu", question->dtype.value_or(DType::kFloat32));
  }
  const absl::StatusOr<PlanAnswer> answer = Answer(*question);
  if (!answer.ok()) return answer.status();
  if (!answer->completed) {
    PrintNotice(
        "note: --time-limit was over before the bytes of each device were counted as a run of the "
        "plan allocates them: those that are shown are the layers' own, a little less");
  }
  if (FormatOf(flags) == PlanFormat::kMegatron) SayForMegatron(*answer);
  const absl::StatusOr<std::string> text =
      Render(*answer, FormatOf(flags), WantsColour() && flags.output.empty());
  if (!text.ok()) return text.status();
  return WriteOutput(flags.output, *text);
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("plan", "Find the best partition and schedule of a model");
  command->footer(
      "Example:\n"
      "  sluice plan gpt2 --devices 4 --device h200 --global-batch 64 -o plan.json");
  auto flags = std::make_shared<PlanFlags>();
  AddPlanFlags(*command, flags.get());
  command->callback([flags, exit_code] {
    const absl::Status status = RunPlan(*flags);
    if (status.ok()) return;
    *exit_code = Fail(status);
    // A search that found nothing in its time has lost no peer, as the usual code would say.
    if (absl::IsFailedPrecondition(status) || absl::IsDeadlineExceeded(status)) {
      *exit_code = kExitNoPlan;
    }
  });
}

}  // namespace sluice
