#include "tools/train/train_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "models/spec/units.h"
#include "partitioner/costs/layer_cost.h"
#include "pipeline/checkpoint/files/where_to_go_on.h"
#include "pipeline/checkpoint/saving/save_outcome.h"
#include "tools/command.h"
#include "tools/schedule/timetable/schedule_source.h"
#include "tools/train/model_flags.h"

namespace sluice {
namespace {

constexpr char kModelGroup[] = "Model and data";
constexpr char kProcessGroup[] = "Processes";

// Options that --help lists together under one heading.
class OptionGroup {
 public:
  OptionGroup(CLI::App& command, const char* name) : command_(command), name_(name) {}

  // Adds an option that writes `value`, with the type of `value`.
  template <typename T>
  CLI::Option* Add(const char* flag, T& value, const std::string& help) {
    return command_.add_option(flag, value, help)->group(name_);
  }
  CLI::Option* AddFlag(const char* flag, bool& value, const std::string& help) {
    return command_.add_flag(flag, value, help)->group(name_);
  }
  // Stays empty where neither the flag nor its negation is given.
  CLI::Option* AddNegatableFlag(const char* flag, std::optional<bool>& value,
                                const std::string& help) {
    return command_
        .add_flag_function(
            flag, [&value](int64_t count) { value = count > 0; }, help)
        ->group(name_);
  }
  const char* name() const { return name_; }

 private:
  CLI::App& command_;
  const char* const name_;
};

void AddModelOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, kModelGroup);
  group.Add("--model", flags->question.model.model,
            "A preset (char-gpt, gpt2, ..., mlp), or a Hugging Face folder or config.json");
  AddShapeFlags(command, &flags->question.model);
  for (const char* flag :
       {"--layers", "--dim", "--heads", "--vocab", "--tied", "--norm", "--head-rows"}) {
    command.get_option(flag)->group(kModelGroup);
  }
  group
      .Add("--data", flags->question.data.path,
           "Text, tokens (.bin of nanoGPT, llm.c, or Megatron with its .idx), JSON lines (text; "
           "prompt and completion; messages), or images in the IDX format: a file or a directory "
           "of them")
      ->required();
  group.Add("--tokenizer", flags->question.tokenizer,
            "A tokenizer.json, or the folder that it is in, to read text with (default: the "
            "model's, where it has one, else each byte is a token)");
  group.Add("--chat-template", flags->question.chat_template,
            "A file with the Jinja template of conversations (default: the one of the tokenizer's "
            "folder)");
  group.AddNegatableFlag("--pack,!--no-pack", flags->question.data.pack,
                         "Fill each window with whole documents (default for JSON lines), or begin "
                         "a window with each");
  group
      .Add("--loss-on", flags->loss_on,
           "Which tokens of conversations and completions the loss counts: assistant or all")
      ->check(CLI::IsMember({"assistant", "all"}))
      ->capture_default_str();
  group
      .Add("--validation", flags->validation,
           "What is held out to evaluate with: a share of the data, 0 to 0.5, or the path of other "
           "data")
      ->default_str(absl::StrCat(Validation().share));
  group.AddFlag("--bytes", flags->bytes,
                "Use the bytes of --data as tokens even if it is not a text, or if the model's "
                "vocabulary is not the 256 bytes");
  group.Add("--seq", flags->question.seq, "Tokens per sample (default: the model's, at most 4096)")
      ->check(CLI::PositiveNumber);
  group.Add("--init", flags->question.options.saving.init,
            "Begin with the weights in this Hugging Face folder, or model.safetensors");
  AddAdaptationFlags(command, kModelGroup, &flags->adaptation);
}

void AddPipelineOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Pipeline");
  group.Add("--stages", flags->stages,
            absl::StrCat("Ranks of the pipeline, each of them a thread, or auto: what suits the "
                         "ranks there are (default: ",
                         TimetableChoice::kDefaultRanks,
                         ", or the number of rows of FILE.csv). With --stage-replicas: stages"));
  group
      .Add("--schedule", flags->question.timetable.schedule,
           "A name from 'sluice schedule list', auto (the best one found for equal stages), "
           "or a FILE.csv")
      ->capture_default_str();
  group
      .Add("--chunks", flags->question.timetable.chunks,
           "Stages per rank (default: the schedule's)")
      ->check(CLI::PositiveNumber);
  group
      .Add("--placement", flags->question.timetable.placement,
           "Placement of the stages of FILE.csv or of auto: looped or v (default: that of the "
           "file's "
           "rows; looped)")
      ->check(CLI::IsMember({"looped", "v"}));
  group.Add("--partition", flags->question.partition,
            "Layers of each stage, such as 0-3,4-7 (default: balanced)");
  group.Add("--plan", flags->question.timetable.plan,
            "Use the schedule, partition, recomputation and replicas of this file, which "
            "'sluice plan --format json' has written");
  group.Add("--micro-batch-size", flags->question.micro_batch_size, "Samples per micro-batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  group
      .Add("--micro-batches", flags->question.timetable.micro_batches,
           absl::StrCat("Micro-batches per step of each replica (default: ",
                        TimetableChoice::kDefaultMicroBatches, ", or those of FILE.csv)"))
      ->check(CLI::PositiveNumber);
}

void AddReplicaOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Replicas");
  group
      .Add("--data-parallel", flags->data_parallel,
           "Replicas of the pipeline; each has its own ranks and micro-batches. auto: what suits "
           "the "
           "ranks there are; the replicas then divide the step's --micro-batches among themselves, "
           "and each of these is a group of --sum-groups, unless that is given")
      ->capture_default_str();
  group.Add("--stage-replicas", flags->stage_replicas,
            "Ranks that share each stage, such as 3,1. They take its micro-batches in turn, "
            "in the groups of --sum-groups (default: each micro-batch is a group)");
  group
      .Add("--zero", flags->question.zero,
           "What replicas divide among themselves: 1: the optimizer's state; 2: sums of "
           "gradients, too. The bits are the same for the same --sum-groups")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  group.AddFlag("--mirror", flags->question.mirror,
                "Each rank also keeps the state of the next one in memory, as it is after every "
                "step: a rank that is lost then takes no state with it. Replicas without --zero "
                "hold each other's state anyway");
  group
      .Add("--audit", flags->question.audit_every,
           "Every N steps, each rank computes one micro-batch of another rank again: all bits must "
           "be equal, or the hardware of one of them computes wrong. That rank is named, and the "
           "run ends with exit code 5. It costs about 1 / (N x micro-batches) of the time, the "
           "sending of a stage's weights, and hashes of the weights in each step: some 1 % where N "
           "x micro-batches is 200. What it has cost is printed at the end. 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  group
      .Add("--sum-groups", flags->question.sum_groups,
           "Number of groups of micro-batches: gradients are summed within each group, then over "
           "the groups (default: one group per replica; with --zero 2 one per micro-batch)")
      ->check(CLI::PositiveNumber);
}

void AddKernelOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Kernels");
  group
      .Add(
          "--dtype", flags->dtype,
          "Compute type: what products multiply in; --master-weights says what weights are kept in")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  group
      .Add("--recompute", flags->recompute,
           "Activations that the backward computes again instead of keeping them")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
  group.AddFlag("--recompute-ahead", flags->question.recompute_ahead,
                "Compute them again while a stage waits for its gradient: a shorter step, with "
                "more memory");
  AddKernelFlags(command, group.name(), &flags->kernels);
  group.AddNegatableFlag("--cuda-graphs,!--no-cuda-graphs", flags->question.cuda_graphs,
                         "Record a GPU's work of each action once, and replay it in all later "
                         "steps, to the same bits (usual on a GPU)");
  group
      .Add("--threads-per-stage", flags->question.threads_per_stage,
           "Threads of each rank's kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  group.AddNegatableFlag("--pin,!--no-pin", flags->pin,
                         "Keep each rank on cores of its own where there are enough (usual, "
                         "unless OMP_PROC_BIND is false), or let the operating system move it");
}

void AddOptimizerOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Optimizer");
  GivenHyperParameters& given = flags->question.options.training.given;
  const HyperParameters usual;
  group
      .Add("--steps", given.steps,
           absl::StrCat("Number of steps; a resumed run continues up to this step (default: ",
                        usual.steps, "; that of the checkpoint, if it follows a cosine)"))
      ->check(CLI::NonNegativeNumber);
  group.Add("--optimizer", flags->optimizer, "How gradients change the weights")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->capture_default_str();
  group.Add("--lr", given.lr, "Learning rate")
      ->check(FiniteNumber(kLargestFloat))
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.lr));
  group
      .Add("--weight-decay", given.weight_decay,
           "Weight decay of matrices; biases and norms have none")
      ->check(FiniteNumber(kLargestFloat))
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.weight_decay));
  group.Add("--clip", given.clip, "Largest global norm of the gradients; 0: no limit")
      ->check(FiniteNumber())
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.clip));
  group.Add("--momentum", given.momentum, "Momentum of sgd")
      ->check(FiniteNumber())
      ->check(CLI::Range(0.0, 1.0))
      ->default_str(absl::StrCat(usual.optimizer.momentum));
  group.Add("--warmup", given.warmup, "Steps in which the learning rate rises linearly")
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.warmup));
  group
      .Add("--lr-schedule", flags->lr_schedule,
           "Learning rate after the warm-up; cosine falls to a tenth")
      ->check(CLI::IsMember({"constant", "cosine"}))
      ->default_str("constant");
  group
      .Add("--seed", flags->question.options.training.seed,
           "Seed of the first weights and of the order of the data")
      ->check(WholeSeed())
      ->capture_default_str();
}

void AddOutputOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Evaluation and output");
  TrainOptions& options = flags->question.options;
  group
      .Add("--eval-every", options.watching.eval_every,
           "Steps between evaluations (default: only at the end)")
      ->check(CLI::NonNegativeNumber);
  group
      .Add("--eval-micro-batches", options.watching.eval_micro_batches,
           "Micro-batches per evaluation (default: all)")
      ->check(CLI::NonNegativeNumber);
  group.Add("--save", options.saving.directory,
            "Directory for the checkpoints of this run, and for its flags in run.toml. If it has "
            "checkpoints of another run, --resume or --overwrite is needed");
  group.AddFlag("--overwrite", flags->question.overwrite,
                "Replace another run's checkpoints in --save, once the first one of this run is "
                "saved");
  group
      .Add("--save-every", options.saving.every,
           "Steps between checkpoints (default: only at the end)")
      ->check(CLI::NonNegativeNumber)
      ->needs("--save");
  group
      .Add("--keep", flags->keep,
           absl::StrCat(
               "How many of the newest checkpoints stay, or 'all' (default: ", kCheckpointsKept,
               "); with --audit also those from which a run would go on without a rank "
               "that computes wrong"))
      ->needs("--save");
  group.Add(
      "--resume", options.saving.resume,
      "Continue from a checkpoint: the newest in a directory of --save that is not damaged, or "
      "one step in it. Flags that are not given are those of run.toml there (without one give "
      "all), learning rate and other hyper-parameters those of the checkpoint. The run goes "
      "on saving to the directory, but not where one step in it is named");
  group
      .Add("--resume-or-start", flags->resume_or_start,
           "The same, but begin a new run, which saves there, where that directory has no "
           "checkpoint yet; --init is for the new run")
      ->excludes("--resume");
  group.AddFlag("--no-save", flags->no_save, "Save nothing, whatever run.toml says");
  group.Add("--log", flags->question.log,
            "File for a line per step and evaluation: .jsonl, with the objects of --json, or .csv. "
            "A run that is resumed appends to it");
  group.Add("--tensorboard", flags->question.tensorboard,
            "Directory for the same numbers, and a picture of the timetable, in files that "
            "TensorBoard shows");
  group.Add("--trace", flags->question.trace,
            "Write a Chrome/Perfetto trace of what each rank did to this file");
  group
      .Add("--trace-steps", flags->trace_steps,
           "Only of these steps, such as 10-20 (default: all, up to a million events per rank)")
      ->needs("--trace");
  group.AddFlag("--json", flags->question.json, "Print one JSON object per step, then a summary");
  group.AddFlag("--commands", flags->question.commands,
                "For programs: read from standard input what to do, a JSON object per line, and "
                "print --json (tools/train/commands/README.md)");
}

void AddProcessOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, kProcessGroup);
  WorldFlags& world = flags->world;
  group.Add("--transport", world.transport,
            "How ranks communicate: inprocess, mpi or tcp (default: mpi under mpirun, tcp under "
            "torchrun or with --rank, otherwise inprocess). nccl: the default, but GPUs send "
            "tensors over NCCL, as they always do between processes");
  group.Add("--rank", world.launch.rank, "Rank of this process, from 0; a launcher sets it too");
  group.Add("--world-size", world.launch.world_size,
            "Number of processes: stages x replicas, or the sum of --stage-replicas");
  group.Add("--master-addr", world.launch.master_addr,
            "Host name or address of the machine of rank 0");
  group.Add("--master-port", world.launch.master_port,
            absl::StrCat("Port on which rank 0 listens (default: ", kDefaultMasterPort, ")"));
  group.AddFlag(
      "--replan", flags->question.replan,
      "Where ranks turn out not to be equally fast, divide the layers anew between two "
      "steps, to the same bits. For ranks that are processes, which mpirun, torchrun or --rank "
      "has started; under 'sluice launch' it is usual");
  group.Add(
      "--secret-file", world.secret_file,
      absl::StrCat("File with the secret that all ranks share, for tcp between machines (or set ",
                   kSecretVariable, ")"));
  group
      .Add("--timeout", flags->timeout,
           "Longest time for which a rank waits for another one, or does not get on")
      ->capture_default_str();
}

absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text) {
  const absl::StatusOr<double> seconds = ParseTimeLimit(text);
  if (!seconds.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--timeout: ", seconds.status().message()));
  }
  const absl::Duration timeout = absl::Seconds(*seconds);
  if (timeout == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--timeout ", text, ": expected a time such as 30s or 5min"));
  }
  return timeout;
}

// `*count` stays where `text` is empty.
absl::Status TakeCount(absl::string_view flag, const std::string& text, std::optional<int>* count,
                       bool* is_auto) {
  *is_auto = text == "auto";
  if (*is_auto || text.empty()) return absl::OkStatus();
  int number = 0;
  if (absl::SimpleAtoi(text, &number) && number > 0) {
    *count = number;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", text, ": expected a whole number of at least 1, or auto"));
}

// A number is a share, which is checked where the data are opened; anything else is a path.
Validation ParseValidation(const std::string& text) {
  Validation validation;
  if (!text.empty() && !absl::SimpleAtod(text, &validation.share)) {
    validation = {.path = text};
  }
  return validation;
}

// Of flags that may say that they are not meant: --no-save=false, or overwrite = false in a file.
absl::Status CheckSaving(const TrainFlags& flags) {
  const bool saves = !flags.question.options.saving.directory.empty();
  if (flags.no_save && saves) {
    return absl::InvalidArgumentError(
        "--save says where checkpoints go, and --no-save that there are none; give one of them");
  }
  if (flags.question.overwrite && !saves)
    return absl::InvalidArgumentError("--overwrite requires --save");
  return absl::OkStatus();
}

absl::StatusOr<int> ParseKeep(const std::string& text) {
  int keep = 0;
  if (text == "all") return std::numeric_limits<int>::max();
  if (absl::SimpleAtoi(text, &keep) && keep > 0) return keep;
  return absl::InvalidArgumentError(
      absl::StrCat("--keep ", text, ": expected a whole number of at least 1, or 'all'"));
}

// "10-20", or "10" for one step.
absl::StatusOr<TracedSteps> ParseTraceSteps(const std::string& text) {
  TracedSteps steps;
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(text, absl::MaxSplits('-', 1));
  const absl::string_view last = absl::StrContains(text, '-') ? ends.second : ends.first;
  if (absl::SimpleAtoi(ends.first, &steps.first) && absl::SimpleAtoi(last, &steps.last) &&
      steps.first >= 1 && steps.first <= steps.last) {
    return steps;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--trace-steps ", text, ": expected a step from 1 on, or two, such as 10-20"));
}

// Whether the environment says so to OpenMP, as those say it who run several programs on one machine.
bool OpenMpMayMoveThreads() {
  const char* bind = std::getenv("OMP_PROC_BIND");
  return bind != nullptr && absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(bind), "false");
}

// The values that were given, and the defaults of the others.
void TakeHyperParameters(const TrainFlags& flags, Training* training) {
  if (flags.lr_schedule) {
    training->given.schedule =
        *flags.lr_schedule == "cosine" ? LrSchedule::kCosine : LrSchedule::kConstant;
  }
  const HyperParameters values = WithGiven({}, training->given);
  training->optimizer = values.optimizer;
  training->steps = values.steps;
}

}  // namespace

void AddTrainFlags(CLI::App& command, TrainFlags* flags) {
  AddModelOptions(command, flags);
  AddPipelineOptions(command, flags);
  AddReplicaOptions(command, flags);
  AddKernelOptions(command, flags);
  AddOptimizerOptions(command, flags);
  AddOutputOptions(command, flags);
  AddProcessOptions(command, flags);
}

absl::StatusOr<TrainQuestion> QuestionOf(const TrainFlags& flags) {
  TrainQuestion question = flags.question;
  TrainOptions& options = question.options;
  TakeHyperParameters(flags, &options.training);
  std::optional<int> data_parallel;
  absl::Status status = CheckSaving(flags);
  if (status.ok()) {
    status = TakeCount("--stages", flags.stages, &question.timetable.stages,
                       &question.timetable.auto_stages);
  }
  if (status.ok()) {
    status = TakeCount("--data-parallel", flags.data_parallel, &data_parallel,
                       &question.auto_data_parallel);
  }
  if (!status.ok()) return status;
  question.data_parallel = data_parallel.value_or(1);
  absl::StatusOr<std::vector<int>> members = ParseStageMembers(flags.stage_replicas);
  if (!members.ok()) return members.status();
  question.timetable.stage_members = *std::move(members);
  absl::StatusOr<KernelChoice> kernels = ChoiceOf(flags.kernels);
  if (!kernels.ok()) return kernels.status();
  question.kernels = *kernels;
  question.optimizer = *ParseOptimizer(flags.optimizer);
  if (!ParseDType(flags.dtype, &question.dtype) ||
      !ParseRecompute(flags.recompute, &question.recompute)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", flags.dtype, " --recompute ", flags.recompute,
                     ": expected fp32 or bf16, and none, selective or full"));
  }
  absl::StatusOr<Adaptation> adaptation = AdaptationOf(flags.adaptation, question.dtype);
  if (!adaptation.ok()) return adaptation.status();
  question.adaptation = *std::move(adaptation);
  question.kernels.master_weights = MasterWeightsOf(flags.adaptation);
  options.saving.adapter = flags.adaptation.adapter;
  const absl::StatusOr<absl::Duration> timeout = ParseTimeout(flags.timeout);
  if (!timeout.ok()) return timeout.status();
  options.watching.timeout = *timeout;
  options.watching.trace = !question.trace.empty();
  if (!flags.trace_steps.empty()) {
    const absl::StatusOr<TracedSteps> steps = ParseTraceSteps(flags.trace_steps);
    if (!steps.ok()) return steps.status();
    options.watching.trace_steps = *steps;
  }
  options.running.pin_threads = flags.pin.value_or(!OpenMpMayMoveThreads());
  if (!flags.keep.empty()) {
    const absl::StatusOr<int> keep = ParseKeep(flags.keep);
    if (!keep.ok()) return keep.status();
    options.saving.keep = *keep;
  }
  if (!flags.resume_or_start.empty()) {
    const absl::StatusOr<std::string> from = WhereToGoOn(flags.resume_or_start);
    if (!from.ok()) return from.status();
    options.saving.resume = *from;
    if (!from->empty() && *from != flags.resume_or_start) {
      PrintNotice(absl::StrCat(flags.resume_or_start, " is gone, and later checkpoints are there; ",
                               "going on from the newest instead"));
    }
    options.saving.init_starts = true;
  }
  question.json = question.json || question.commands;
  if (flags.bytes) question.data.bytes = Bytes::kAny;
  if (flags.loss_on == "all") question.data.loss_on = LossOn::kAll;
  question.data.validation = ParseValidation(flags.validation);
  options.saving.data_path = question.data.path;
  return question;
}

}  // namespace sluice
