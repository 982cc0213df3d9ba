#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "partitioner/planning/answer/answer.h"
#include "partitioner/planning/file/megatron_arguments.h"
#include "partitioner/planning/file/plan_file.h"
#include "partitioner/planning/file/torchtitan_config.h"
#include "schedules/counted.h"
#include "schedules/csv.h"
#include "schedules/render/render.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/plan/plan_drawing.h"
#include "tools/plan/plan_flags.h"
#include "tools/plan/plan_question.h"
#include "tools/plan/plan_table.h"
#include "tools/plan/progress_line.h"
#include "tools/plan/table_text.h"
#include "tools/terminal.h"
#include "tools/train/bf16_note.h"
#include "tools/train/settings/settings_flags.h"

namespace sluice {
namespace {

enum class PlanFormat { kText, kJson, kSvg, kMegatron, kTorchTitan };

PlanFormat FormatOf(const PlanFlags& flags) {
  const bool json_file = !flags.format_given && absl::EndsWith(flags.output, ".json");
  if (flags.json || flags.format == "json" || json_file) return PlanFormat::kJson;
  if (flags.format == "svg") return PlanFormat::kSvg;
  if (flags.format == "torchtitan") return PlanFormat::kTorchTitan;
  return flags.format == "megatron" ? PlanFormat::kMegatron : PlanFormat::kText;
}

// torchtitan reads the timetable from a file of its own.
std::string TimetableBeside(const std::string& output) {
  return absl::StrCat(output.substr(0, output.rfind('.')), ".csv");
}

// Which torchtitan reads `output`; nothing where it has another ending.
std::optional<TorchTitanFile> TorchTitanFileOf(const std::string& output) {
  if (absl::EndsWith(output, ".toml")) return TorchTitanFile::kToml;
  if (absl::EndsWith(output, ".py")) return TorchTitanFile::kPython;
  return std::nullopt;
}

// Refuses the flags that have no effect on the format that is asked for.
absl::Status RefuseUnused(const PlanFlags& flags) {
  if (FormatOf(flags) == PlanFormat::kSvg) return absl::OkStatus();
  const char* unused = flags.width ? "--width" : flags.title ? "--title" : nullptr;
  if (unused == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(unused, " is for pictures; give --format svg, or leave it out"));
}

absl::StatusOr<std::string> Render(const PlanAnswer& answer, const PlanFlags& flags) {
  const Plan& plan = answer.plan;
  switch (FormatOf(flags)) {
    case PlanFormat::kJson:
      return FormatPlan(plan, answer.context, answer.variants);
    case PlanFormat::kSvg:
      return DrawPlan(answer, flags.title, flags.width.value_or(0));
    case PlanFormat::kMegatron:
      return FormatMegatronArguments(plan, answer.context);
    case PlanFormat::kTorchTitan:
      return FormatTorchTitanConfig(plan, answer.context, *TorchTitanFileOf(flags.output),
                                    TimetableBeside(flags.output));
    case PlanFormat::kText:
      break;
  }
  const bool colour = WantsColour() && flags.output.empty();
  return InLocale(FormatPlanTable(answer, OutputColumns(), colour));
}

absl::StatusOr<PlanAnswer> Answer(const PlanQuestion& question) {
  ProgressLine line;
  return AnswerQuestion(question, [&line](const PlanProgress& progress) { line.Show(progress); });
}

// What the arguments or the configuration do not say.
void SayForTrainer(const PlanAnswer& answer, Trainer trainer) {
  PrintNotice(absl::StrCat("note: start ",
                           Counted(answer.context.DeviceCount(answer.plan), "process"), ": ",
                           Counted(answer.context.data_parallel, "replica"), " of the pipeline"));
  if (const std::string devices = RankDevicesOf(answer.context); !devices.empty()) {
    PrintNotice(
        absl::StrCat("note: the devices differ; place the pipeline's ranks as the plan has ",
                     "them: ", devices, " (numbers in the cluster's file)"));
  }
  const bool megatron = trainer == Trainer::kMegatron;
  if (megatron && answer.context.tensor_parallel > 1) {
    PrintNotice(
        "note: set CUDA_DEVICE_MAX_CONNECTIONS=1 for them, which Megatron-LM requires for tensor "
        "parallelism on GPUs before Blackwell");
  }
  if (const std::string trained = answer.context.adaptation.ToString(); !trained.empty()) {
    PrintNotice(absl::StrCat(
        "note: the plan is for ", trained, "; ",
        megatron
            ? "Megatron-LM's arguments cannot say that: freeze parameters and add adapters in "
              "the script that trains, or with PEFT in NeMo"
            : "torchtitan's file says it in a comment only: add adapters by its LoRAConverter, "
              "and freeze other parameters in the model's code"));
  }
  if (answer.plan.stages.front().recompute != Recompute::kSelective) return;
  PrintNotice(absl::StrCat(
      "note: the selective recomputation of ", megatron ? "Megatron-LM" : "torchtitan",
      " drops other tensors than were counted here, so it will need other memory; --recompute none "
      "and full are the same in both"));
}

absl::Status CheckTorchTitanFile(const std::string& output) {
  const std::optional<TorchTitanFile> file = TorchTitanFileOf(output);
  if (!file.has_value()) {
    return absl::InvalidArgumentError(
        "--format torchtitan writes two files; give -o NAME.py, or -o NAME.toml for a torchtitan "
        "before 0.3, and the timetable is NAME.csv");
  }
  const std::string name = output.substr(output.rfind('/') + 1);
  if (name == ".py") {
    return absl::InvalidArgumentError(absl::StrCat(
        "-o ", output, ": Python cannot import a module without a name; give -o NAME.py"));
  }
  if (*file == TorchTitanFile::kPython && absl::c_count(name, '.') > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("-o ", output,
                     ": Python cannot import a module with a dot in its name; give another name"));
  }
  return absl::OkStatus();
}

// Notes the flags that change nothing, since nobody is there to share with.
void NoteUnused(const PlanQuestion& question) {
  const bool replicas = question.data_parallel != 1, shared = question.tensor_parallel != 1;
  const auto note = [](const char* flag, const char* needs) {
    PrintNotice(absl::StrCat("note: ", flag, " has no effect without ", needs));
  };
  if (question.sequence_parallel && !shared) note("--sequence-parallel", "--tensor-parallel");
  if (question.overlap_sync && !replicas) note("--overlap-sync", "--data-parallel");
  if (question.zero > 0 && !replicas) note("--zero", "--data-parallel");
}

// Whose replicas they are is known with the answer.
void NoteSerialSums(const PlanQuestion& question, const PlanAnswer& answer) {
  if (!question.overlap_sync || question.data_parallel == 1 || !answer.runs_here) return;
  PrintNotice(
      "note: --overlap-sync has no effect on the times of this plan, which are those of sluice's "
      "own replicas: they sum gradients after the last backward");
}

// Whether a search has found no plan, which is no wrong question.
bool FoundNoPlan(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || ExitCodeOf(status) == kExitNoPlan;
}

// `status` of a plan for devices of so little memory that `memory`, which was given without a unit,
// was hardly meant in bytes, and says so.
absl::Status WithMissingUnit(const absl::Status& status, const std::string& memory,
                             const PlanQuestion& question) {
  constexpr int64_t kLeast = 1 << 20;
  double number = 0;
  const bool in_bytes = question.memory.has_value() && absl::SimpleAtod(memory, &number);
  if (!in_bytes || *question.memory >= kLeast || !FoundNoPlan(status)) return status;
  return WithSuffix(status,
                    absl::StrCat("; --memory ", memory, " has no unit, and so is in bytes; ",
                                 "give one, such as ", memory, "GiB"));
}

absl::Status RunPlan(const PlanFlags& flags) {
  if (absl::Status ok = CheckJsonFlag(flags.json, flags.format); !ok.ok()) return ok;
  const bool torchtitan = FormatOf(flags) == PlanFormat::kTorchTitan;
  if (torchtitan) {
    if (absl::Status ok = CheckTorchTitanFile(flags.output); !ok.ok()) return ok;
  }
  if (absl::Status ok = RefuseUnused(flags); !ok.ok()) return ok;
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  if (!question.ok()) return question.status();
  NoteUnused(*question);
  if (question->measures_processor()) {
    NoteSlowBFloat16("cpu", question->dtype.value_or(DType::kFloat32));
  }
  const absl::StatusOr<PlanAnswer> answer = Answer(*question);
  if (!answer.ok()) return WithMissingUnit(answer.status(), flags.memory, *question);
  NoteSerialSums(*question, *answer);
  if (!answer->completed) {
    PrintNotice(
        "note: --time-limit was over before the bytes of each device were counted as a run of the "
        "plan allocates them: those that are shown are the layers' own, a little less");
  }
  if (question->trainer != Trainer::kSluice) SayForTrainer(*answer, question->trainer);
  const absl::StatusOr<std::string> text = Render(*answer, flags);
  if (!text.ok()) return text.status();
  if (torchtitan) {
    absl::Status written =
        WriteOutput(TimetableBeside(flags.output), FormatTimetableCsv(answer->plan.timetable));
    if (!written.ok()) return written;
  }
  return WriteOutput(flags.output, *text);
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("plan", "Find the best partition and schedule of a model");
  command->footer(
      "Example:\n"
      "  sluice plan gpt2 --devices 4 --device h200 --global-batch 64 -o plan.json");
  auto flags = std::make_shared<PlanFlags>();
  AddConfigFlag(*command);
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
