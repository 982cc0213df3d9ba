#include "tools/train/train_flags.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "partitioner/costs/layer_cost.h"
#include "tools/command.h"
#include "tools/schedule/timetable/schedule_source.h"
#include "tools/train/model_flags.h"

namespace sluice {
namespace {

constexpr char kModelGroup[] = "Model and data";
constexpr char kProcessGroup[] = "Processes";

// Options that --help lists together.
class OptionGroup {
 public:
  OptionGroup(CLI::App& command, const char* name) : command_(command), name_(name) {}

  // An option that writes `value`, typed as that is.
  template <typename T>
  CLI::Option* Add(const char* flag, T& value, const std::string& help) {
    return command_.add_option(flag, value, help)->group(name_);
  }
  CLI::Option* AddFlag(const char* flag, bool& value, const std::string& help) {
    return command_.add_flag(flag, value, help)->group(name_);
  }
  const char* name() const { return name_; }

 private:
  CLI::App& command_;
  const char* const name_;
};

void AddModelOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, kModelGroup);
  group.Add("--model", flags->question.model.model,
            "char-gpt, gpt2, ..., mlp, or a Hugging Face config.json");
  AddShapeFlags(command, &flags->question.model);
  for (const char* flag : {"--layers", "--dim", "--heads", "--vocab", "--tied", "--norm"}) {
    command.get_option(flag)->group(kModelGroup);
  }
  group.Add("--data", flags->question.data, "A text file, or IDX images: a directory or file")
      ->required();
  group.AddFlag("--bytes", flags->question.bytes,
                "Take the bytes of --data for tokens even where it is no text, or the model's "
                "vocabulary is not the 256 bytes");
  group.Add("--seq", flags->question.seq, "Tokens a sample (default: the model's)")
      ->check(CLI::PositiveNumber);
  group.Add("--init", flags->question.options.saving.init,
            "Start from the weights in this model.safetensors");
}

void AddPipelineOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Pipeline");
  group
      .Add("--stages", flags->question.timetable.stages,
           absl::StrCat(
               "Ranks of the pipeline, a thread each (default: ", TimetableChoice::kDefaultRanks,
               ", or as many as FILE.csv has rows); stages, with "
               "--stage-replicas"))
      ->check(CLI::PositiveNumber);
  group
      .Add("--schedule", flags->question.timetable.schedule,
           "A name from 'sluice schedule list', auto (the best found for equal stages), or "
           "a FILE.csv")
      ->capture_default_str();
  group
      .Add("--chunks", flags->question.timetable.chunks,
           "Stages a rank holds (default: the schedule's)")
      ->check(CLI::PositiveNumber);
  group
      .Add(
          "--placement", flags->question.timetable.placement,
          "Where FILE.csv, or auto, has its stages: looped or v (default: as its rows say, looped)")
      ->check(CLI::IsMember({"looped", "v"}));
  group.Add("--partition", flags->question.partition,
            "Layers of each stage: 0-3,4-7 (default: balanced)");
  group.Add("--plan", flags->question.timetable.plan,
            "Schedule, partition, recomputation and replicas from 'sluice plan --format "
            "json'");
  group.Add("--micro-batch-size", flags->question.micro_batch_size, "Samples a micro-batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  group
      .Add("--micro-batches", flags->question.timetable.micro_batches,
           absl::StrCat("Micro-batches a step, of each replica (default: ",
                        TimetableChoice::kDefaultMicroBatches, ", or as many as FILE.csv has)"))
      ->check(CLI::PositiveNumber);
}

void AddReplicaOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Replicas");
  group
      .Add("--data-parallel", flags->question.data_parallel,
           "Replicas of the pipeline, each on ranks and micro-batches of its own")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  group.Add("--stage-replicas", flags->stage_replicas,
            "Ranks of each stage, 3,1: they take turns at its micro-batches, --sum-groups "
            "of them a step (default: each micro-batch is one)");
  group
      .Add("--zero", flags->question.zero,
           "What replicas divide among themselves: 1 the optimizer's state, 2 sums of "
           "gradients too; the same bits for the same --sum-groups")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  group
      .Add("--sum-groups", flags->question.sum_groups,
           "Sum gradients within this many groups of micro-batches, then over the groups "
           "(default: the replicas; with --zero 2, every micro-batch is one)")
      ->check(CLI::PositiveNumber);
}

void AddKernelOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Kernels");
  group.Add("--dtype", flags->dtype, "Compute type; weights are kept in fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  group.Add("--recompute", flags->recompute, "What backward computes again instead of keeping")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str();
  group.AddFlag("--recompute-ahead", flags->question.recompute_ahead,
                "Compute that while the gradient is awaited, a stage at a time: sooner done, and "
                "more memory");
  AddKernelFlags(command, group.name(), &flags->kernels);
  group.AddFlag("--cuda-graphs", flags->question.cuda_graphs,
                "Have a GPU keep what an action asks of it, and do that again in each later step");
  group
      .Add("--threads-per-stage", flags->question.threads_per_stage,
           "Threads of each rank's kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  group.AddFlag("--no-pin", flags->no_pin, "Let the system move ranks between cores");
}

void AddOptimizerOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, "Optimizer");
  GivenHyperParameters& given = flags->question.options.training.given;
  const HyperParameters usual;
  group
      .Add("--steps", given.steps,
           absl::StrCat("Steps in all; a resumed run goes on to this number (default: ",
                        usual.steps, "; the checkpoint's, where it follows a cosine)"))
      ->check(CLI::NonNegativeNumber);
  group.Add("--optimizer", flags->optimizer, "What turns gradients into steps")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->capture_default_str();
  group.Add("--lr", given.lr, "Learning rate")
      ->check(FiniteNumber(kLargestFloat))
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.lr));
  group.Add("--weight-decay", given.weight_decay, "Of matrices; not of biases and norms")
      ->check(FiniteNumber(kLargestFloat))
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.weight_decay));
  group.Add("--clip", given.clip, "Largest global gradient norm; 0: any")
      ->check(FiniteNumber())
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.clip));
  group.Add("--momentum", given.momentum, "Of sgd")
      ->check(FiniteNumber())
      ->check(CLI::Range(0.0, 1.0))
      ->default_str(absl::StrCat(usual.optimizer.momentum));
  group.Add("--warmup", given.warmup, "Steps of linear warm-up")
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.warmup));
  group
      .Add("--lr-schedule", flags->lr_schedule, "Of the learning rate; cosine goes down to a tenth")
      ->check(CLI::IsMember({"constant", "cosine"}))
      ->default_str("constant");
  group.Add("--seed", flags->question.options.training.seed, "Of weights and data order")
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
           "Micro-batches an evaluation (default: all)")
      ->check(CLI::NonNegativeNumber);
  group.Add("--save", options.saving.directory,
            "Directory for checkpoints, of this run alone: one that holds another run's takes "
            "--resume or --overwrite");
  group
      .AddFlag("--overwrite", flags->question.overwrite,
               "Replace another run's checkpoints there, once the first of this run is saved")
      ->needs("--save");
  group
      .Add("--save-every", options.saving.every,
           "Steps between checkpoints (default: only at the end)")
      ->check(CLI::NonNegativeNumber);
  group.Add("--resume", options.saving.resume,
            "Go on from a checkpoint, its directory or one step's, with its learning rate "
            "and the like unless they are given");
  group.Add("--trace", flags->question.trace, "Write a Chrome/Perfetto trace of what ran");
  group.AddFlag("--json", flags->question.json, "One JSON object a step, then a summary");
}

void AddProcessOptions(CLI::App& command, TrainFlags* flags) {
  OptionGroup group(command, kProcessGroup);
  WorldFlags& world = flags->world;
  group.Add("--transport", world.transport,
            "inprocess, mpi or tcp (default: mpi under mpirun, tcp under torchrun or with "
            "--rank, else inprocess); nccl: the default, with tensors of GPUs over NCCL, as "
            "always between processes");
  group.Add("--rank", world.launch.rank, "This process, from 0; a launcher says it too");
  group.Add("--world-size", world.launch.world_size,
            "Processes: stages x replicas, or the sum of "
            "--stage-replicas");
  group.Add("--master-addr", world.launch.master_addr, "The machine of rank 0");
  group.Add("--master-port", world.launch.master_port,
            absl::StrCat("Where rank 0 listens (default: ", kDefaultMasterPort, ")"));
  group.Add(
      "--secret-file", world.secret_file,
      absl::StrCat("What all ranks know, for tcp between machines (or ", kSecretVariable, ")"));
  group.Add("--timeout", flags->timeout, "Longest wait for another rank")->capture_default_str();
}

absl::StatusOr<absl::Duration> ParseTimeout(const std::string& text) {
  absl::Duration timeout;
  if (!absl::ParseDuration(text, &timeout) || timeout <= absl::ZeroDuration() ||
      timeout == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--timeout ", text, ": expected a time such as 30s or 5m"));
  }
  return timeout;
}

// What was given, and the usual value of the rest.
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
  absl::StatusOr<std::vector<int>> members = ParseStageMembers(flags.stage_replicas);
  if (!members.ok()) return members.status();
  question.timetable.stage_members = *std::move(members);
  absl::StatusOr<KernelChoice> kernels = ChoiceOf(flags.kernels);
  if (!kernels.ok()) return kernels.status();
  question.kernels = *kernels;
  question.optimizer = flags.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamW;
  if (!ParseDType(flags.dtype, &question.dtype) ||
      !ParseRecompute(flags.recompute, &question.recompute)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", flags.dtype, " --recompute ", flags.recompute,
                     ": expected fp32 or bf16, and none, selective or full"));
  }
  const absl::StatusOr<absl::Duration> timeout = ParseTimeout(flags.timeout);
  if (!timeout.ok()) return timeout.status();
  options.watching.timeout = *timeout;
  options.watching.trace = !question.trace.empty();
  options.running.pin_threads = !flags.no_pin;
  options.saving.data_path = question.data;
  return question;
}

}  // namespace sluice
