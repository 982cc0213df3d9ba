#include "tools/train/train_job.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/data/open_dataset.h"
#include "models/device/host_limits.h"
#include "models/files/positioned_file.h"
#include "models/spec/model_config.h"
#include "partitioner/planning/answer/default_partition.h"
#include "partitioner/planning/file/plan_file.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/model_files.h"
#include "schedules/counted.h"
#include "tools/files.h"
#include "tools/tokenize/text_model.h"
#include "tools/train/commands/asked_data.h"
#include "tools/train/train_plan.h"
#include "tools/train/train_shape.h"
#include "tools/train/train_timetable.h"

namespace sluice {
namespace {

// The model that was asked for, or the plan's own where none was given. A plan of a profiled chain
// has the costs of layers, but not their model.
absl::StatusOr<ModelSpec> ChooseModel(TrainQuestion* question, const PlanFile* plan) {
  ModelChoice& model = question->model;
  if (model.model.empty() && !model.shapes() && plan != nullptr && plan->spec.has_value())
    return *plan->spec;
  if (model.model.empty())
    model.model = plan != nullptr && plan->says_batch ? plan->model : "char-gpt";
  return ResolveTrainable(model, question->seq);
}

// The folder that a path is in, from the root.
std::string FolderOf(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  return (ignored ? path : whole).parent_path().string();
}

// What checkpoints keep of the model's folder: the config.json that was given, made to say what is
// saved, and the files beside it; what that folder lacks, and all that a preset has, comes from the
// folder of the weights.
absl::StatusOr<ModelFiles> ModelFilesOf(const ModelChoice& model, const ModelSpec& spec,
                                        const std::string& init) {
  ModelFiles files;
  if (NamesFile(model)) {
    const std::filesystem::path config = ModelFile(model);
    absl::StatusOr<std::string> text = ReadModelJson(model);
    if (!text.ok()) return text.status();
    absl::StatusOr<std::string> saved = PatchModelConfig(*text, config.string(), spec);
    if (!saved.ok()) return saved.status();
    files.origin = FolderOf(config);
    files.texts[kConfigFile] = *std::move(saved);
    if (config.filename() == kConfigFile) {
      absl::Status status = AddKeptFiles(files.origin, &files);
      if (!status.ok()) return status;
    }
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(init, ignored)) return files;
  if (absl::Status status = AddKeptFiles(init, &files); !status.ok()) return status;
  const bool has_files = files.origin.empty() && !files.texts.empty();
  if (has_files) files.origin = FolderOf(std::filesystem::path(init) / kConfigFile);
  return files;
}

// The partition of the plan, or the given one, or a balanced one.
absl::StatusOr<Partition> ChoosePartition(const TrainQuestion& question, const PlanFile* plan,
                                          const RunRequest& request, const Timetable& step) {
  const int stages = step.placement.model_stages();
  const auto by_flops = [&]() -> absl::StatusOr<Partition> {
    absl::StatusOr<DefaultStages> answer = DefaultPartition(
        LayersOf(question, request.spec, step.placement.ranks(), question.data_parallel), step);
    if (!answer.ok()) return answer.status();
    return std::move(answer->partition);
  };
  absl::StatusOr<Partition> partition =
      plan != nullptr               ? plan->assignment.partition
      : !question.partition.empty() ? ParsePartition(question.partition, request.spec.layer_count())
                                    : by_flops();
  if (!partition.ok() || static_cast<int>(partition->size()) == stages) return partition;
  return absl::InvalidArgumentError(absl::StrCat(
      "the partition ", FormatPartition(*partition), " has ", Counted(partition->size(), "stage"),
      "; ", Counted(step.placement.ranks(), "rank"), " with ", Counted(stages, "stage"),
      " of schedule '", step.name, "' need ", stages));
}

absl::Status CheckRecomputation(const RunRequest& request) {
  const bool recomputes = std::any_of(request.recompute.begin(), request.recompute.end(),
                                      [](Recompute policy) { return policy != Recompute::kNone; });
  if (!request.recompute_ahead || recomputes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--recompute-ahead: nothing is computed again; add --recompute selective or full");
}

// Schedule "auto" for what the stages have been measured to take.
absl::Status FitTimetable(const TrainQuestion& question, const ModelSpec& spec,
                          const Partition& partition, Timetable* step) {
  const TimetableChoice& choice = question.timetable;
  if (choice.schedule != "auto" || !choice.timetable.empty()) return absl::OkStatus();
  const absl::StatusOr<StageCosts> costs = PriceDefaultStages(
      LayersOf(question, spec, step->placement.ranks(), question.data_parallel), *step, partition);
  if (!costs.ok()) return costs.status();
  absl::StatusOr<Timetable> best = OptimisedStep(choice, *costs);
  if (!best.ok()) return best.status();
  *step = *std::move(best);
  return absl::OkStatus();
}

absl::StatusOr<RunRequest> MakeRequest(const TrainQuestion& question, const ModelSpec& spec,
                                       const PlanFile* plan) {
  // The timetable of a step, by which layers are divided; an asynchronous run then uses a longer
  // one.
  absl::StatusOr<Timetable> timetable = StepTimetable(question.timetable);
  if (!timetable.ok()) return timetable.status();
  if (plan != nullptr && plan->says_step()) {
    absl::Status status = CheckStageRanks(*plan, timetable->placement, question.timetable.plan);
    if (!status.ok()) return status;
  }
  absl::StatusOr<const Kernels*> kernels = KernelsOf(question.kernels);
  if (!kernels.ok()) return kernels.status();
  RunRequest request;
  request.kernels = *kernels;
  request.spec = spec;
  request.batch = BatchOf(question, spec);
  request.threads_per_stage = question.threads_per_stage;
  request.optimizer = question.optimizer;
  request.dtype = question.dtype;
  request.adaptation = question.adaptation;
  if (absl::Status status = CheckModel(question.kernels, request.dtype, spec); !status.ok()) {
    return status;
  }
  absl::StatusOr<Partition> partition = ChoosePartition(question, plan, request, *timetable);
  if (!partition.ok()) return partition.status();
  request.recompute = plan != nullptr && plan->says_step()
                          ? plan->assignment.recompute
                          : std::vector<Recompute>(partition->size(), question.recompute);
  request.partition = *std::move(partition);
  if (question.speeds.known()) {
    absl::Status status = FitTimetable(question, spec, request.partition, &*timetable);
    if (!status.ok()) return status;
  }
  request.replicas = question.data_parallel;
  request.stage_members = question.timetable.stage_members;
  request.zero = question.zero;
  request.mirror = question.mirror;
  request.audit_every = question.audit_every;
  request.sum_groups = GroupsOf(question.sum_groups, *timetable);
  request.step_micro_batches = timetable->micro_batches;
  absl::StatusOr<Timetable> whole = RunTimetable(question.timetable, question.options, *timetable);
  if (!whole.ok()) return whole.status();
  request.timetable = *std::move(whole);
  request.recompute_ahead = question.recompute_ahead;
  if (absl::Status status = CheckRecomputation(request); !status.ok()) return status;
  return request;
}

absl::StatusOr<StageCosts> ExpectedCosts(const TrainQuestion& question, const RunRequest& request) {
  const Placement& placement = request.timetable.placement;
  TrainedLayers layers = LayersOf(question, request.spec, placement.ranks(), request.replicas);
  if (!request.stage_members.empty()) layers.rank_speeds.clear();
  // What is computed again ahead has actions of its own in the timetable.
  return PriceDefaultStages(layers, request.timetable, request.partition,
                            request.recompute_ahead ? std::vector<Recompute>() : request.recompute);
}

// What the tokenizer that was given, or the model's, reads; nullptr where there is none, or bytes
// are asked for.
absl::StatusOr<std::unique_ptr<TextModel>> TextOf(const TrainQuestion& question) {
  if (question.data.bytes == Bytes::kAny) return nullptr;
  const std::string path =
      question.tokenizer.empty() ? TokenizerOf(question.model.model) : question.tokenizer;
  if (path.empty() && !question.chat_template.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--chat-template ", question.chat_template,
                     " needs a tokenizer; give --tokenizer, or a model's folder as --model"));
  }
  if (path.empty()) return nullptr;
  absl::StatusOr<TextModel> text = ReadTextModel(path, question.chat_template);
  if (!text.ok()) return text.status();
  return std::make_unique<TextModel>(*std::move(text));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenData(const TrainQuestion& question,
                                                  const ModelSpec& spec, int64_t seq) {
  const absl::StatusOr<std::optional<DataChannel>> channel = ParseDataChannel(question.data.path);
  if (!channel.ok()) return channel.status();
  if (channel->has_value()) {
    const MlpConfig* const mlp = spec.mlp();
    return OpenAskedData({.channel = **channel,
                          .micro_batch_size = question.micro_batch_size,
                          .seq = mlp == nullptr ? seq : 0,
                          .classes = spec.classes(),
                          .pixels = mlp == nullptr ? 0 : mlp->widths.front()});
  }
  const absl::StatusOr<std::unique_ptr<TextModel>> text = TextOf(question);
  if (!text.ok()) return text.status();
  DataRequest data = question.data;
  if (*text != nullptr) data.text = &(*text)->format;
  data.threads = CoresToUse();
  data.seq = seq;
  data.seed = question.options.training.seed;
  if (spec.decoder() != nullptr) data.vocabulary = spec.classes();
  return OpenDataset(data);
}

// The ids of bytes have another meaning for a model whose tokens are words.
absl::Status CheckTokens(const Dataset& data, const ModelSpec& spec,
                         const TrainQuestion& question) {
  if (question.data.bytes == Bytes::kAny || spec.decoder() == nullptr ||
      spec.classes() <= data.classes()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(question.data.path, " is text, whose tokens are its bytes, ", data.classes(),
                   " of them; model '", spec.name, "' has a vocabulary of ", spec.classes(),
                   " tokens that are not bytes; give a model of bytes (a preset with --vocab ",
                   data.classes(), "), or --bytes to train on raw bytes all the same"));
}

// Flags that would change nothing.
absl::Status CheckUsed(const Dataset& data, const ModelSpec& spec, const TrainQuestion& question) {
  const auto given = [&question](const char* flag) { return question.given.contains(flag); };
  if (given("seq") && spec.decoder() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--seq ", question.seq, " is for text, of which a sample has so many tokens; ",
                     "model '", spec.name, "' takes images; leave it out"));
  }
  if (given("pack") && !data.has_documents()) {
    return absl::InvalidArgumentError(absl::StrCat(
        question.data.pack.value_or(false) ? "--pack" : "--no-pack",
        " is for documents, as JSON lines have them; ", question.data.path, " holds ",
        data.description(), ", whose samples are alike with and without it; leave it out"));
  }
  if (given("momentum") && question.optimizer != OptimizerKind::kSgd) {
    return absl::InvalidArgumentError(
        "--momentum is for --optimizer sgd, and this run has adamw; give --optimizer sgd, or leave "
        "it out");
  }
  return absl::OkStatus();
}

absl::Status CheckData(const Dataset& data, const ModelSpec& spec, const TrainQuestion& question) {
  const std::string& path = question.data.path;
  const int takes = spec.classes();
  if ((data.input_dtype() == DType::kInt32) != (spec.decoder() != nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds ", data.description(), ", which model '", spec.name,
                     "' cannot read: a GPT takes text, an MLP images"));
  }
  if (question.data.bytes == Bytes::kAny && spec.decoder() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bytes is for text; ", path, " holds ", data.description()));
  }
  if (data.classes() > takes) {
    if (spec.decoder() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has ", data.classes(),
                                                     " classes, and model '", spec.name, "' tells ",
                                                     takes, " apart"));
    }
    return absl::InvalidArgumentError(absl::StrCat(path, " holds ", data.description(),
                                                   ", so its tokens are ids below ", data.classes(),
                                                   "; model '", spec.name, "' has a vocabulary of ",
                                                   takes, "; give --vocab ", data.classes()));
  }
  if (absl::Status status = CheckTokens(data, spec, question); !status.ok()) return status;
  if (spec.mlp() != nullptr && data.input_size() != spec.mlp()->widths.front()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", data.input_size(),
                                                   " pixels an image, model '", spec.name,
                                                   "' takes ", spec.mlp()->widths.front()));
  }
  return absl::OkStatus();
}

// Of a run that begins with random weights although the model has its own, or although only an
// adapter of them is saved.
std::string NoteOnWeights(const TrainQuestion& question) {
  const Saving& saving = question.options.saving;
  if (!saving.init.empty()) return "";
  const std::string folder = FolderOfWeights(question.model);
  if (folder.empty()) {
    if (!NamesFile(question.model) || !question.adaptation.lora.has_value()) return "";
    return absl::StrCat("note: ", question.model.model,
                        " has no weights, and the adapter is one of random weights, which are not "
                        "saved; for those of a model add --init FOLDER");
  }
  return absl::StrCat(
      "note: --model says what the model looks like, and the run begins with random ",
      "weights; for those in ", folder, " add --init ", folder);
}

// Of a run that has no directory to save to, since it goes on from one checkpoint of a directory.
std::string NoteOnSaving(const TrainQuestion& question) {
  const Saving& saving = question.options.saving;
  const bool saves = !saving.directory.empty() || question.commands;
  if (saving.resume.empty() || saves || question.given.contains("no-save")) return "";
  return absl::StrCat("note: nothing will be saved, since ", saving.resume,
                      " is one checkpoint; give --save DIR, or --resume the directory of ",
                      "checkpoints to go on saving there (or --no-save, if that is meant)");
}

}  // namespace

absl::StatusOr<TrainJob> MakeTrainJob(const TrainQuestion& asked, std::optional<int> ranks,
                                      std::shared_ptr<const Dataset> opened) {
  TrainQuestion question = asked;
  std::unique_ptr<PlanFile> plan;
  if (const std::string& file = question.timetable.plan; !file.empty()) {
    absl::StatusOr<std::string> text = ReadWholeFile(file, kMostJsonBytes);
    if (!text.ok()) return text.status();
    absl::StatusOr<PlanFile> parsed = ParsePlan(*text, file);
    if (!parsed.ok()) return parsed.status();
    if (absl::Status status = TakePlan(*parsed, &question); !status.ok()) return status;
    plan = std::make_unique<PlanFile>(*std::move(parsed));
  }
  const absl::StatusOr<ModelSpec> spec = ChooseModel(&question, plan.get());
  if (!spec.ok()) return spec.status();
  if (question.chooses_shape()) {
    absl::Status status = ChooseShape(*spec, ranks.value_or(CoresToUse()), &question);
    if (!status.ok()) return status;
  }
  TrainJob job;
  absl::StatusOr<RunRequest> request = MakeRequest(question, *spec, plan.get());
  if (!request.ok()) return request.status();
  job.request = *std::move(request);
  if (!question.tensorboard.empty()) {
    absl::StatusOr<StageCosts> costs = ExpectedCosts(question, job.request);
    if (!costs.ok()) return costs.status();
    job.costs = *std::move(costs);
  }
  if (opened == nullptr) {
    absl::StatusOr<std::unique_ptr<Dataset>> data =
        OpenData(question, *spec, job.request.batch.seq);
    if (!data.ok()) return data.status();
    opened = *std::move(data);
  }
  job.data = std::move(opened);
  job.note =
      question.options.saving.resume.empty() ? NoteOnWeights(question) : NoteOnSaving(question);
  if (absl::Status status = CheckUsed(*job.data, *spec, question); !status.ok()) return status;
  if (absl::Status status = CheckData(*job.data, *spec, question); !status.ok()) return status;
  job.request.documents = job.data->has_documents();
  if (job.request.documents && question.kernels.cuda &&
      question.kernels.attention == CudaAttention::kCudnn) {
    return absl::InvalidArgumentError(
        absl::StrCat("--attention cudnn: ", question.data.path, " holds ", job.data->description(),
                     ", which cuDNN's attention does not keep apart; leave the flag out"));
  }
  const bool saves = !question.options.saving.directory.empty() || question.commands;
  if (saves && question.options.saving.resume.empty()) {
    absl::StatusOr<ModelFiles> files =
        ModelFilesOf(question.model, *spec, question.options.saving.init);
    if (!files.ok()) return files.status();
    question.options.saving.model_files = std::make_shared<const ModelFiles>(*std::move(files));
  }
  job.options = std::move(question.options);
  job.options.saving.saves_adapter = job.request.adaptation.lora.has_value();
  return job;
}

}  // namespace sluice
