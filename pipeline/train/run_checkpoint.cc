#include "pipeline/train/run_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/spec/adaptation.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "pipeline/checkpoint/saving/save_together.h"
#include "pipeline/state/host_state.h"
#include "pipeline/train/arithmetic.h"
#include "schedules/sum_order.h"

namespace sluice {
namespace {

constexpr char kFlush[] = "flush";

// In state.json.
const char* UpdatesName(WeightUpdates updates) {
  switch (updates) {
    case WeightUpdates::kEachMicroBatch:
      return "pipedream";
    case WeightUpdates::kDoubleBuffered:
      return "pipedream-2bw";
    default:
      return kFlush;
  }
}

// For people, who know schedules.
std::string UpdatesText(const std::string& name) {
  return name == kFlush ? "at a flush, as 1f1b" : absl::StrCat("without a flush, as ", name);
}

// A tied parameter is stored once, under the name of the one that it equals.
const std::string& StoredName(const ParameterDecl& decl) {
  return decl.tied_to.empty() ? decl.name : decl.tied_to;
}

RunState Describe(const RunPlan& plan, const TrainOptions& options, const Dataset& data,
                  int64_t step) {
  const RunRequest& request = plan.request;
  RunState state;
  state.step = step;
  state.seed = options.training.seed;
  state.model = request.spec;
  state.optimizer = OptimizerName(request.optimizer);
  state.hyper_parameters = ToNamedNumbers({options.training.optimizer, options.training.steps});
  state.adaptation = request.adaptation.ToString();
  state.updates = UpdatesName(plan.lowered.updates);
  if (plan.asynchronous()) state.partition = FormatPartition(request.partition);
  state.micro_batch_size = request.batch.size;
  state.micro_batches = plan.global_micro_batches();
  // Each copy of the model is a group.
  state.sum_groups = std::max(plan.sum_groups(), plan.lowered.placement.copies());
  state.sum_order = SumOrder::Of(plan.lowered).ToString();
  state.seq = request.batch.seq;
  state.head_rows = request.spec.head_rows();
  state.dtype = request.dtype;
  state.data_path = options.saving.data_path;
  state.data_fingerprint = data.fingerprint();
  state.arithmetic = ArithmeticOf(options);
  state.model_files = options.saving.model_files;
  if (state.model_files != nullptr) {
    state.more = WithOrigin(state.more, state.model_files->origin);
  }
  return state;
}

// The folder of weights that are named by their file or by their folder.
std::string FolderOf(const std::string& path) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(path, ignored);
  return is_file ? std::filesystem::path(path).parent_path().string() : path;
}

// Where to read the view's weights to, from the tensor `name` of a file.
TensorTarget TargetOf(const ParameterView& view, const std::string& name, HostState* host) {
  return {.name = name,
          .shape = view.decl->shape,
          .data = host->Place(view.weight, view.decl->bytes()),
          .dtype = view.decl->dtype,
          .split = view.decl->is_split(),
          .low_halves = host->Place(view.low_halves)};
}

template <typename T>
void Compare(const char* what, const T& saved, const T& given,
             std::vector<std::string>* differences) {
  if (saved == given) return;
  differences->push_back(absl::StrCat(what, " (saved ", saved, ", given ", given, ")"));
}

void CompareModels(const ModelSpec& saved, const ModelSpec& given,
                   std::vector<std::string>* differences) {
  ModelSpec alike = given;
  if (saved.decoder() != nullptr && given.decoder() != nullptr) {
    const NormKind norm = saved.decoder()->norm;
    Compare("the model's norms, --norm", std::string(NormName(norm)),
            std::string(NormName(given.decoder()->norm)), differences);
    auto& decoder = std::get<DecoderConfig>(alike.config);
    decoder.norm = norm;
    // A plan's model says the usual width, too, which a preset's leaves out.
    if (decoder.mlp_width() == saved.decoder()->mlp_width())
      decoder.hidden = saved.decoder()->hidden;
  }
  if (!SameArchitecture(saved, alike)) differences->emplace_back("the model's shape");
}

// The fingerprint that older checkpoints have for the same data: that of documents did not say
// where they end, which is its last part now.
std::string WithoutBorders(const std::string& fingerprint) {
  if (!absl::StartsWith(fingerprint, "documents:")) return fingerprint;
  return fingerprint.substr(0, fingerprint.rfind(':'));
}

// Which data it was and is, for people, who know no fingerprints.
std::string DataText(const std::string& saved, const std::string& given) {
  if (saved.empty() || given.empty()) return "";
  if (saved == given) return absl::StrCat(": ", given, " has changed since then");
  return absl::StrCat(": of ", saved, " then, of ", given, " now");
}

// What keeps `given` from going on where `saved` stopped, bit for bit.
std::vector<std::string> Differences(const RunState& saved, const RunState& given) {
  std::vector<std::string> differences;
  CompareModels(saved.model, given.model, &differences);
  Compare("the micro-batch size", saved.micro_batch_size, given.micro_batch_size, &differences);
  Compare("the number of micro-batches", saved.micro_batches, given.micro_batches, &differences);
  if (saved.sum_groups > 0) {
    Compare("the groups in which gradients are summed, --sum-groups", saved.sum_groups,
            given.sum_groups, &differences);
  }
  Compare("the order in which they are summed, --schedule", saved.sum_order, given.sum_order,
          &differences);
  Compare("the sequence length", saved.seq, given.seq, &differences);
  Compare("the rows of logits at a time, --head-rows", saved.head_rows, given.head_rows,
          &differences);
  Compare("the compute type", std::string(DTypeName(saved.dtype)),
          std::string(DTypeName(given.dtype)), &differences);
  // Older checkpoints have other texts for the same numbers.
  const auto trained = [](const std::string& adaptation) {
    const absl::StatusOr<Adaptation> parsed = ParseAdaptation(adaptation);
    const std::string text = parsed.ok() ? parsed->ToString() : adaptation;
    return text.empty() ? "everything" : text;
  };
  Compare("what is trained, --lora and --freeze", trained(saved.adaptation),
          trained(given.adaptation), &differences);
  Compare("the seed", saved.seed, given.seed, &differences);
  Compare("the optimizer", saved.optimizer, given.optimizer, &differences);
  if (!saved.updates.empty()) {
    Compare("when weights are updated, --schedule", UpdatesText(saved.updates),
            UpdatesText(given.updates), &differences);
  }
  const std::string& data = given.data_fingerprint;
  if (saved.data_fingerprint != data && saved.data_fingerprint != WithoutBorders(data)) {
    Compare("the data's fingerprint", saved.data_fingerprint, data, &differences);
    absl::StrAppend(&differences.back(), DataText(saved.data_path, given.data_path));
  }
  return differences;
}

// Without a flush, a stage's place decides how old the weights are that its gradients are of.
void ComparePartitions(const RunState& saved, const RunState& given,
                       std::vector<std::string>* differences) {
  if (saved.partition.empty() || saved.partition == given.partition) return;
  differences->push_back(
      absl::StrCat("partition ", saved.partition, " in the checkpoint, now ", given.partition,
                   ": without a flush, other stages go on with gradients of another staleness"));
}

// Other instructions add in another order.
void CompareArithmetic(const RunState& saved, const RunState& given,
                       std::vector<std::string>* differences) {
  if (saved.arithmetic.empty() || saved.arithmetic == given.arithmetic) return;
  differences->push_back(absl::StrCat(
      "the checkpoint was computed by ", saved.arithmetic, ", this run by ", given.arithmetic,
      ": its bits will not be those that the first run would have gone on to"));
}

std::string Join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) absl::StrAppend(&joined, joined.empty() ? "" : "; ", part);
  return joined;
}

}  // namespace

std::string WholePath(const std::string& path) {
  if (path.empty()) return path;
  std::error_code failed;
  const bool folder = std::filesystem::is_directory(path, failed);
  const std::filesystem::path whole =
      folder ? std::filesystem::canonical(path, failed) : std::filesystem::absolute(path, failed);
  return failed ? path : whole.lexically_normal().string();
}

absl::StatusOr<SaveOutcome> SaveRun(const RankState& state, const TrainOptions& options,
                                    const Dataset& data, const SavePoint& point,
                                    Communicator& world, const std::function<void()>& on_read) {
  const RunPlan& plan = state.plan();
  const std::string base = point.base_hash.empty() ? "" : WholePath(options.saving.init);
  absl::StatusOr<std::vector<CheckpointFile>> files =
      LayOutCheckpoint(plan, options.saving.shard_bytes, FolderOf(base));
  if (!files.ok()) return files.status();
  std::vector<const ParameterView*> views(CanonicalParameters(plan).size());
  for (const ParameterView& view : state.parameters()) {
    // Copies of the model are equal; the first stands for them.
    if (view.model_copy == 0) views[static_cast<size_t>(view.global_index)] = &view;
  }
  SaveRequest request;
  request.directory = options.saving.directory;
  request.state = Describe(plan, options, data, point.step);
  request.state.base = base;
  request.state.base_hash = point.base_hash;
  request.state.evaluation_due = point.evaluation_due;
  request.files = *std::move(files);
  request.timeout = options.watching.timeout;
  HostReader reader(&state.device(), state.stream());
  request.read = [&](const CheckpointPart& part, int64_t first, int64_t count) {
    return ReadState(*views[static_cast<size_t>(part.parameter)], part.kind, part.first + first,
                     count, &reader);
  };
  request.check_read = [&] { return reader.Check(options.watching.timeout); };
  request.keep = options.saving.keep;
  request.stays = point.stays;
  request.on_read = on_read;
  return SaveTogether(request, world);
}

absl::StatusOr<ResumePoint> OpenResumePoint(const std::string& path, const RunPlan& plan,
                                            const TrainOptions& options, const Dataset& data) {
  std::string instead;
  absl::StatusOr<LoadedCheckpoint> checkpoint = OpenNewestGoodCheckpoint(path, &instead);
  if (!checkpoint.ok()) return checkpoint.status();
  const RunState given = Describe(plan, options, data, 0);
  const std::vector<std::string> differences = Differences(checkpoint->state, given);
  if (!differences.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        checkpoint->path, " cannot be resumed with these settings, which differ in: ",
        Join(differences), "; give the saved ones, or start anew from its weights with --init"));
  }
  absl::StatusOr<ResumedHyperParameters> resumed = ResumeHyperParameters(
      checkpoint->state.hyper_parameters, {options.training.optimizer, options.training.steps},
      options.training.given, plan.request.optimizer);
  if (!resumed.ok()) {
    return absl::Status(resumed.status().code(),
                        absl::StrCat(checkpoint->path, ": ", resumed.status().message()));
  }
  ResumePoint resume;
  resume.step = checkpoint->state.step;
  resume.hyper_parameters = resumed->values;
  resume.differences = std::move(resumed->differences);
  if (!instead.empty()) resume.differences.insert(resume.differences.begin(), instead);
  ComparePartitions(checkpoint->state, given, &resume.differences);
  CompareArithmetic(checkpoint->state, given, &resume.differences);
  resume.checkpoint = std::make_shared<const LoadedCheckpoint>(*std::move(checkpoint));
  return resume;
}

absl::Status LoadState(const LoadedCheckpoint& checkpoint, RankState& state) {
  HostState host(&state.device(), state.stream());
  std::vector<TensorTarget> weights;
  std::vector<TensorTarget> moments;
  for (const ParameterView& view : state.parameters()) {
    const std::string& name = StoredName(*view.decl);
    if (view.shared || (checkpoint.adapter_only && !IsAdapter(name))) continue;
    weights.push_back(TargetOf(view, name, &host));
    if (view.decl->frozen) continue;
    const int64_t count = view.count == view.elements ? -1 : view.count;
    const auto moment = [&](const char* suffix, float* values) {
      void* const place = host.Place(values, view.count * SizeOf(DType::kFloat32));
      moments.push_back({name + suffix, view.decl->shape, place, view.first, count});
    };
    moment(".m", view.moment1);
    if (view.moment2 != nullptr) moment(".v", view.moment2);
  }
  absl::Status status = ReadTensors(*checkpoint.weights, weights);
  if (status.ok()) status = ReadTensors(*checkpoint.optimizer, moments);
  if (status.ok()) host.Upload();
  return status;
}

absl::Status LoadFrozen(const LoadedCheckpoint& checkpoint, RankState& state) {
  HostState host(&state.device(), state.stream());
  std::vector<TensorTarget> weights;
  for (const ParameterView& view : state.parameters()) {
    if (view.shared || !view.decl->frozen) continue;
    weights.push_back(TargetOf(view, StoredName(*view.decl), &host));
  }
  absl::Status status = ReadTensors(*checkpoint.weights, weights);
  if (status.ok()) host.Upload();
  return status;
}

absl::Status LoadInitialWeights(const std::string& path, RankState& state) {
  WeightNames model;
  for (const ParameterDecl* decl : CanonicalParameters(state.plan())) {
    if (IsAdapter(decl->name)) continue;  // it starts from its own values
    model.all.push_back(StoredName(*decl));
    if (!decl->tied_to.empty()) model.tied.push_back({decl->name, decl->tied_to});
  }
  HostState host(&state.device(), state.stream());
  std::vector<TensorTarget> weights;
  for (const ParameterView& view : state.parameters()) {
    if (IsAdapter(view.decl->name)) continue;
    TensorTarget target = TargetOf(view, StoredName(*view.decl), &host);
    if (!view.shared) weights.push_back(target);
    if (view.decl->tied_to.empty()) continue;
    target.name = view.decl->name;
    model.copies.push_back(std::move(target));
  }
  absl::Status status = LoadWeights(path, weights, model);
  if (status.ok()) host.Upload();
  return status;
}

absl::Status LoadAdapter(const std::string& path, RankState& state) {
  const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(path);
  if (!adapter.ok()) return adapter.status();
  const RunRequest& request = state.plan().request;
  if (!(request.adaptation.lora == adapter->lora)) {
    return absl::InvalidArgumentError(absl::StrCat(
        adapter->path, " is an adapter of ", Adaptation{.lora = adapter->lora}.ToString(),
        "; this run trains ", request.adaptation.ToString()));
  }
  const auto maps = AdaptedMaps(*adapter, *request.spec.decoder());
  if (!maps.ok()) return maps.status();
  HostState host(&state.device(), state.stream());
  std::vector<TensorTarget> targets;
  for (const ParameterView& view : state.parameters()) {
    if (!IsAdapter(view.decl->name)) continue;
    targets.push_back(TargetOf(view, view.decl->name, &host));
  }
  absl::Status status = ReadTensors(*adapter->tensors, targets);
  if (status.ok()) host.Upload();
  return status;
}

}  // namespace sluice
