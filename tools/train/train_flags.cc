#include "tools/train/train_flags.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "models/data/open_dataset.h"
#include "partitioner/planning/default_partition.h"
#include "partitioner/planning/file.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/train/train_timetable.h"

namespace sluice {
namespace {

void AddModelOptions(CLI::App& command, TrainFlags* flags) {
  command
      .add_option("--model", flags->model.model,
                  "char-gpt, gpt2, ..., mlp, or a Hugging Face config.json")
      ->group("Model and data");
  AddShapeFlags(command, &flags->model);
  for (const char* flag : {"--layers", "--dim", "--heads", "--vocab", "--tied", "--norm"}) {
    command.get_option(flag)->group("Model and data");
  }
  command.add_option("--data", flags->data, "A text file, or IDX images: a directory or file")
      ->required()
      ->group("Model and data");
  command
      .add_flag("--bytes", flags->bytes,
                "Take the bytes of --data for tokens even where it is no text, or the model's "
                "vocabulary is not the 256 bytes")
      ->group("Model and data");
  command.add_option("--seq", flags->seq, "Tokens a sample (default: the model's)")
      ->check(CLI::PositiveNumber)
      ->group("Model and data");
  command
      .add_option("--init", flags->options.saving.init,
                  "Start from the weights in this model.safetensors")
      ->group("Model and data");
}

void AddPipelineOptions(CLI::App& command, TrainFlags* flags) {
  const char* group = "Pipeline";
  command
      .add_option("--stages", flags->stages,
                  absl::StrCat("Ranks of the pipeline, a thread each (default: ", kDefaultRanks,
                               ", or as many as FILE.csv has rows); stages, with "
                               "--stage-replicas"))
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_option("--schedule", flags->schedule,
                  "A name from 'sluice schedule list', auto (the best found for equal stages), or "
                  "a FILE.csv")
      ->capture_default_str()
      ->group(group);
  command.add_option("--chunks", flags->chunks, "Stages a rank holds (default: the schedule's)")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_option(
          "--placement", flags->placement,
          "Where FILE.csv, or auto, has its stages: looped or v (default: as its rows say, looped)")
      ->check(CLI::IsMember({"looped", "v"}))
      ->group(group);
  command
      .add_option("--partition", flags->partition,
                  "Layers of each stage: 0-3,4-7 (default: balanced)")
      ->group(group);
  command
      .add_option("--plan", flags->plan,
                  "Schedule, partition, recomputation and replicas from 'sluice plan --format "
                  "json'")
      ->group(group);
  command.add_option("--micro-batch-size", flags->micro_batch_size, "Samples a micro-batch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--micro-batches", flags->micro_batches,
                  absl::StrCat("Micro-batches a step, of each replica (default: ",
                               kDefaultMicroBatches, ", or as many as FILE.csv has)"))
      ->check(CLI::PositiveNumber)
      ->group(group);
}

void AddReplicaOptions(CLI::App& command, TrainFlags* flags) {
  const char* group = "Replicas";
  command
      .add_option("--data-parallel", flags->data_parallel,
                  "Replicas of the pipeline, each on ranks and micro-batches of its own")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--stage-replicas", flags->stage_replicas,
                  "Ranks of each stage, 3,1: they take turns at its micro-batches, --sum-groups "
                  "of them a step (default: each micro-batch is one)")
      ->group(group);
  command
      .add_option("--zero", flags->zero,
                  "What replicas divide among themselves: 1 the optimizer's state, 2 sums of "
                  "gradients too; the same bits for the same --sum-groups")
      ->check(CLI::Range(0, 2))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--sum-groups", flags->sum_groups,
                  "Sum gradients within this many groups of micro-batches, then over the groups "
                  "(default: the replicas; with --zero 2, every micro-batch is one)")
      ->check(CLI::PositiveNumber)
      ->group(group);
}

void AddKernelOptions(CLI::App& command, TrainFlags* flags) {
  const char* group = "Kernels";
  command.add_option("--dtype", flags->dtype, "Compute type; weights are kept in fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--recompute", flags->recompute,
                  "What backward computes again instead of keeping")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--recompute-ahead", flags->recompute_ahead,
                "Compute that while the gradient is awaited, a stage at a time: sooner done, and "
                "more memory")
      ->group(group);
  AddKernelFlags(command, group, &flags->kernels);
  command
      .add_flag("--cuda-graphs", flags->cuda_graphs,
                "Have a GPU keep what an action asks of it, and do that again in each later step")
      ->group(group);
  command
      .add_option("--threads-per-stage", flags->threads_per_stage, "Threads of each rank's kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->group(group);
  command.add_flag("--no-pin", flags->no_pin, "Let the system move ranks between cores")
      ->group(group);
}

void AddOptimizerOptions(CLI::App& command, TrainFlags* flags) {
  const char* group = "Optimizer";
  GivenHyperParameters& given = flags->options.training.given;
  const HyperParameters usual;
  command
      .add_option("--steps", given.steps,
                  absl::StrCat("Steps in all; a resumed run goes on to this number (default: ",
                               usual.steps, "; the checkpoint's, where it follows a cosine)"))
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--optimizer", flags->optimizer, "What turns gradients into steps")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--lr", given.lr, "Learning rate")
      ->check(FiniteNumber(kLargestFloat))
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.lr))
      ->group(group);
  command.add_option("--weight-decay", given.weight_decay, "Of matrices; not of biases and norms")
      ->check(FiniteNumber(kLargestFloat))
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.weight_decay))
      ->group(group);
  command.add_option("--clip", given.clip, "Largest global gradient norm; 0: any")
      ->check(FiniteNumber())
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.clip))
      ->group(group);
  command.add_option("--momentum", given.momentum, "Of sgd")
      ->check(FiniteNumber())
      ->check(CLI::Range(0.0, 1.0))
      ->default_str(absl::StrCat(usual.optimizer.momentum))
      ->group(group);
  command.add_option("--warmup", given.warmup, "Steps of linear warm-up")
      ->check(CLI::NonNegativeNumber)
      ->default_str(absl::StrCat(usual.optimizer.warmup))
      ->group(group);
  command
      .add_option("--lr-schedule", flags->lr_schedule,
                  "Of the learning rate; cosine goes down to a tenth")
      ->check(CLI::IsMember({"constant", "cosine"}))
      ->default_str("constant")
      ->group(group);
  command.add_option("--seed", flags->options.training.seed, "Of weights and data order")
      ->capture_default_str()
      ->group(group);
}

void AddOutputOptions(CLI::App& command, TrainFlags* flags) {
  const char* group = "Evaluation and output";
  TrainOptions& options = flags->options;
  command
      .add_option("--eval-every", options.watching.eval_every,
                  "Steps between evaluations (default: only at the end)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_option("--eval-micro-batches", options.watching.eval_micro_batches,
                  "Micro-batches an evaluation (default: all)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_option(
          "--save", options.saving.directory,
          "Directory for checkpoints, of this run alone: one that holds another run's takes "
          "--resume or --overwrite")
      ->group(group);
  command
      .add_flag("--overwrite", flags->overwrite,
                "Replace another run's checkpoints there, once the first of this run is saved")
      ->needs("--save")
      ->group(group);
  command
      .add_option("--save-every", options.saving.every,
                  "Steps between checkpoints (default: only at the end)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_option("--resume", options.saving.resume,
                  "Go on from a checkpoint, its directory or one step's, with its learning rate "
                  "and the like unless they are given")
      ->group(group);
  command.add_option("--trace", flags->trace, "Write a Chrome/Perfetto trace of what ran")
      ->group(group);
  command.add_flag("--json", flags->json, "One JSON object a step, then a summary")->group(group);
}

// A plan stands for the flags that it decides.
absl::Status TakePlan(const PlanFile& plan, TrainFlags* flags) {
  if (!flags->partition.empty()) {
    return absl::InvalidArgumentError(
        "--plan and --partition both say which layers a stage holds; give one of them");
  }
  if (plan.stage_replicas.empty()) {
    flags->stages = plan.devices;
  } else {
    flags->stages = static_cast<int>(plan.stage_replicas.size());
    flags->stage_replicas = absl::StrJoin(plan.stage_replicas, ",");
  }
  flags->data_parallel = plan.data_parallel;
  if (!plan.says_step()) return absl::OkStatus();
  flags->schedule = plan.schedule;
  flags->timetable = plan.timetable;
  flags->chunks = plan.chunks;
  flags->micro_batches = plan.micro_batches;
  flags->zero = plan.zero;
  if (!plan.says_batch) return absl::OkStatus();
  flags->micro_batch_size = static_cast<int>(plan.micro_batch_size);
  flags->dtype = DTypeName(plan.dtype);
  if (flags->seq == 0) flags->seq = static_cast<int>(plan.seq);
  return absl::OkStatus();
}

// The model that the flags name; the plan's own, where they say nothing about it. A plan of a
// profiled chain knows what layers cost, not what they are.
absl::StatusOr<ModelSpec> ChooseModel(const TrainFlags& flags, const PlanFile* plan) {
  ModelFlags model = flags.model;
  if (model.model.empty() && !model.shapes() && plan != nullptr && plan->spec.has_value())
    return *plan->spec;
  if (model.model.empty())
    model.model = plan != nullptr && plan->says_batch ? plan->model : "char-gpt";
  return ResolveModel(model, flags.seq);
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

absl::StatusOr<RunRequest> MakeRequest(const TrainFlags& flags, const ModelSpec& spec,
                                       const PlanFile* plan) {
  // The timetable of a step, by which layers are divided; an asynchronous run goes on to a longer
  // one.
  absl::StatusOr<Timetable> timetable = StepTimetable(flags);
  if (!timetable.ok()) return timetable.status();
  absl::StatusOr<const Kernels*> kernels = KernelsOf(flags.kernels);
  if (!kernels.ok()) return kernels.status();
  absl::StatusOr<std::vector<int>> stage_replicas = StageReplicasOf(flags);
  if (!stage_replicas.ok()) return stage_replicas.status();
  RunRequest request;
  request.kernels = *kernels;
  request.spec = spec;
  request.batch.size = flags.micro_batch_size;
  request.batch.seq = spec.gpt() == nullptr ? 1 : flags.seq > 0 ? flags.seq : spec.gpt()->max_seq;
  request.threads_per_stage = flags.threads_per_stage;
  request.optimizer = flags.optimizer == "sgd" ? OptimizerKind::kSgd : OptimizerKind::kAdamW;
  Recompute recompute = Recompute::kNone;
  if (!ParseDType(flags.dtype, &request.dtype) || !ParseRecompute(flags.recompute, &recompute)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", flags.dtype, " --recompute ", flags.recompute,
                     ": expected fp32 or bf16, and none, selective or full"));
  }
  if (absl::Status status = CheckModel(flags.kernels, request.dtype, spec); !status.ok()) {
    return status;
  }
  const int stages = timetable->placement.model_stages();
  absl::StatusOr<Partition> partition =
      plan != nullptr ? plan->assignment.partition
      : !flags.partition.empty()
          ? ParsePartition(flags.partition, spec.layer_count())
          : DefaultPartition(spec, request.batch, *timetable, *stage_replicas);
  if (!partition.ok()) return partition.status();
  if (static_cast<int>(partition->size()) != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("the partition ", FormatPartition(*partition), " has ", partition->size(),
                     " stages; ", timetable->placement.ranks(), " ranks with ", stages,
                     " stages of schedule '", timetable->name, "' need ", stages));
  }
  request.recompute = plan != nullptr && plan->says_step()
                          ? plan->assignment.recompute
                          : std::vector<Recompute>(static_cast<size_t>(stages), recompute);
  request.partition = *std::move(partition);
  request.replicas = flags.data_parallel;
  request.stage_replicas = *std::move(stage_replicas);
  request.zero = flags.zero;
  request.sum_groups = GroupsOf(flags, *timetable);
  request.step_micro_batches = timetable->micro_batches;
  absl::StatusOr<Timetable> whole = RunTimetable(flags, *timetable);
  if (!whole.ok()) return whole.status();
  request.timetable = *std::move(whole);
  request.recompute_ahead = flags.recompute_ahead;
  const bool recomputes = std::any_of(request.recompute.begin(), request.recompute.end(),
                                      [](Recompute policy) { return policy != Recompute::kNone; });
  if (request.recompute_ahead && !recomputes) {
    return absl::InvalidArgumentError(
        "--recompute-ahead: nothing is computed again; add --recompute selective or full");
  }
  return request;
}

// What was given, and the usual value of the rest.
void TakeHyperParameters(TrainFlags* flags) {
  TrainOptions& options = flags->options;
  if (flags->lr_schedule) {
    options.training.given.schedule =
        *flags->lr_schedule == "cosine" ? LrSchedule::kCosine : LrSchedule::kConstant;
  }
  const HyperParameters values = WithGiven({}, options.training.given);
  options.training.optimizer = values.optimizer;
  options.training.steps = values.steps;
}

// Ids of bytes mean something else to a model whose tokens are words.
absl::Status CheckTokens(const Dataset& data, const ModelSpec& spec, const TrainFlags& flags) {
  if (flags.bytes || spec.gpt() == nullptr || spec.gpt()->vocab <= data.classes()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flags.data, " is text, whose tokens are its bytes, ", data.classes(),
                   " of them; model '", spec.name, "' has a vocabulary of ", spec.gpt()->vocab,
                   " tokens that are not bytes; give a model of bytes (a preset with --vocab ",
                   data.classes(), "), or --bytes to train on raw bytes all the same"));
}

absl::Status CheckData(const Dataset& data, const ModelSpec& spec, const TrainFlags& flags) {
  const std::string& path = flags.data;
  const int64_t takes = spec.gpt() != nullptr ? spec.gpt()->vocab : spec.mlp()->widths.back();
  if ((data.input_dtype() == DType::kInt32) != (spec.gpt() != nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds ", data.description(), ", which model '", spec.name,
                     "' cannot read: a GPT takes text, an MLP images"));
  }
  if (flags.bytes && spec.gpt() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bytes is for text; ", path, " holds ", data.description()));
  }
  if (data.classes() > takes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", data.classes(),
                                                   " distinct ids, model '", spec.name, "' only ",
                                                   takes, "; give a larger --vocab"));
  }
  if (absl::Status status = CheckTokens(data, spec, flags); !status.ok()) return status;
  if (spec.mlp() != nullptr && data.input_size() != spec.mlp()->widths.front()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", data.input_size(),
                                                   " pixels an image, model '", spec.name,
                                                   "' takes ", spec.mlp()->widths.front()));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTrainFlags(CLI::App& command, TrainFlags* flags) {
  AddModelOptions(command, flags);
  AddPipelineOptions(command, flags);
  AddReplicaOptions(command, flags);
  AddKernelOptions(command, flags);
  AddOptimizerOptions(command, flags);
  AddOutputOptions(command, flags);
  AddWorldFlags(command, &flags->world);
  command.add_option("--timeout", flags->timeout, "Longest wait for another rank")
      ->capture_default_str()
      ->group("Processes");
}

absl::StatusOr<TrainJob> MakeTrainJob(const TrainFlags& typed) {
  TrainFlags flags = typed;
  TakeHyperParameters(&flags);
  std::unique_ptr<PlanFile> plan;
  if (!flags.plan.empty()) {
    absl::StatusOr<std::string> text = ReadFile(flags.plan);
    if (!text.ok()) return text.status();
    absl::StatusOr<PlanFile> parsed = ParsePlan(*text, flags.plan);
    if (!parsed.ok()) return parsed.status();
    if (absl::Status status = TakePlan(*parsed, &flags); !status.ok()) return status;
    plan = std::make_unique<PlanFile>(*std::move(parsed));
  }
  const absl::StatusOr<ModelSpec> spec = ChooseModel(flags, plan.get());
  if (!spec.ok()) return spec.status();
  TrainJob job;
  absl::StatusOr<RunRequest> request = MakeRequest(flags, *spec, plan.get());
  if (!request.ok()) return request.status();
  job.request = *std::move(request);
  absl::StatusOr<std::unique_ptr<Dataset>> data =
      OpenDataset(flags.data, job.request.batch.seq, flags.options.training.seed,
                  flags.bytes ? Bytes::kAny : Bytes::kOfText);
  if (!data.ok()) return data.status();
  job.data = *std::move(data);
  if (absl::Status status = CheckData(*job.data, *spec, flags); !status.ok()) return status;
  absl::StatusOr<absl::Duration> timeout = ParseTimeout(flags.timeout);
  if (!timeout.ok()) return timeout.status();

  job.options = flags.options;
  job.options.watching.timeout = *timeout;
  job.options.running.pin_threads = !flags.no_pin;
  job.options.saving.data_path = flags.data;
  job.options.watching.trace = !flags.trace.empty();
  return job;
}

}  // namespace sluice
