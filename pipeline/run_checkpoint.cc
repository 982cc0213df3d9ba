#include "pipeline/run_checkpoint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/host_state.h"
#include "pipeline/state_gather.h"

namespace sluice {
namespace {

const char* OptimizerName(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW ? "adamw" : "sgd";
}

// A tied parameter is stored once, under the name of the one that it equals.
const std::string& StoredName(const ParameterDecl& decl) {
  return decl.tied_to.empty() ? decl.name : decl.tied_to;
}

RunState Describe(const RunPlan& plan, const TrainOptions& options, const Dataset& data,
                  int64_t step) {
  const RunRequest& request = plan.request;
  const OptimizerOptions& optimizer = options.optimizer;
  RunState state;
  state.step = step;
  state.seed = options.seed;
  state.model = request.spec;
  state.optimizer = OptimizerName(request.optimizer);
  state.hyper_parameters = {{"lr", optimizer.lr},
                            {"weight_decay", optimizer.weight_decay},
                            {"clip", optimizer.clip},
                            {"beta1", optimizer.beta1},
                            {"beta2", optimizer.beta2},
                            {"momentum", optimizer.momentum},
                            {"warmup", static_cast<double>(optimizer.warmup)},
                            {"cosine", optimizer.schedule == LrSchedule::kCosine ? 1.0 : 0.0},
                            {"steps", static_cast<double>(options.steps)}};
  state.micro_batch_size = request.batch.size;
  state.micro_batches = plan.global_micro_batches();
  // Each copy of the model is a group.
  state.sum_groups = std::max(plan.sum_groups(), plan.lowered.placement.replicas());
  state.seq = request.batch.seq;
  state.dtype = request.dtype;
  state.data_path = options.data_path;
  state.data_fingerprint = data.fingerprint();
  return state;
}

// A tensor of a checkpoint.
struct StoredTensor {
  StateKind kind = StateKind::kWeight;
  int parameter = 0;  // canonical index
};

struct StoredTensors {
  std::vector<StoredTensor> weights;
  std::vector<StoredTensor> moments;
};

StoredTensors TensorsToStore(const RunPlan& plan) {
  StoredTensors tensors;
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  for (int index = 0; index < static_cast<int>(parameters.size()); ++index) {
    if (!parameters[static_cast<size_t>(index)]->tied_to.empty()) continue;
    tensors.weights.push_back({StateKind::kWeight, index});
    tensors.moments.push_back({StateKind::kMoment1, index});
    if (plan.request.optimizer == OptimizerKind::kAdamW)
      tensors.moments.push_back({StateKind::kMoment2, index});
  }
  return tensors;
}

const char* Suffix(StateKind kind) {
  switch (kind) {
    case StateKind::kWeight:
      return "";
    case StateKind::kMoment1:
      return ".m";
    default:
      return ".v";
  }
}

// What rank 0 writes; `gather` brings the data when they are due.
std::vector<TensorSource> SourcesOf(const std::vector<StoredTensor>& stored, const RunPlan& plan,
                                    absl::Duration timeout, StateGather* gather) {
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  std::vector<TensorSource> sources;
  for (const StoredTensor& tensor : stored) {
    const ParameterDecl& decl = *parameters[static_cast<size_t>(tensor.parameter)];
    TensorSource& source = sources.emplace_back();
    source.name = decl.name + Suffix(tensor.kind);
    source.shape = decl.shape;
    source.append = [tensor, timeout, gather](FileWriter& file) {
      return gather->Gather(
          tensor.kind, tensor.parameter, timeout, [&file](const float* values, int64_t count) {
            return file.Append(values, static_cast<size_t>(count) * sizeof(float));
          });
    };
  }
  return sources;
}

template <typename T>
void Compare(const char* what, const T& saved, const T& given,
             std::vector<std::string>* differences) {
  if (saved == given) return;
  differences->push_back(absl::StrCat(what, " (saved ", saved, ", given ", given, ")"));
}

// What keeps `given` from going on where `saved` stopped, bit for bit.
std::vector<std::string> Differences(const RunState& saved, const RunState& given) {
  std::vector<std::string> differences;
  if (!(saved.model.config == given.model.config)) differences.emplace_back("the model's shape");
  Compare("the micro-batch size", saved.micro_batch_size, given.micro_batch_size, &differences);
  Compare("the number of micro-batches", saved.micro_batches, given.micro_batches, &differences);
  if (saved.sum_groups > 0) {
    Compare("the groups in which gradients are summed, --sum-groups", saved.sum_groups,
            given.sum_groups, &differences);
  }
  Compare("the sequence length", saved.seq, given.seq, &differences);
  Compare("the compute type", std::string(DTypeName(saved.dtype)),
          std::string(DTypeName(given.dtype)), &differences);
  Compare("the seed", saved.seed, given.seed, &differences);
  Compare("the optimizer", saved.optimizer, given.optimizer, &differences);
  Compare("the data's fingerprint", saved.data_fingerprint, given.data_fingerprint, &differences);
  return differences;
}

std::string Join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) absl::StrAppend(&joined, joined.empty() ? "" : "; ", part);
  return joined;
}

}  // namespace

absl::StatusOr<std::string> SaveRun(const RankState& state, const TrainOptions& options,
                                    const Dataset& data, int64_t step, Communicator& world) {
  const RunPlan& plan = state.plan();
  StateGather gather(state, world);
  const StoredTensors tensors = TensorsToStore(plan);
  if (world.rank() == 0) {
    const auto sources = [&](const std::vector<StoredTensor>& stored) {
      return SourcesOf(stored, plan, options.timeout, &gather);
    };
    return SaveCheckpoint(options.save_dir, Describe(plan, options, data, step),
                          sources(tensors.weights), sources(tensors.moments));
  }
  // In the order in which rank 0 writes.
  for (const std::vector<StoredTensor>& stored : {tensors.weights, tensors.moments}) {
    for (const StoredTensor& tensor : stored) {
      absl::Status status = gather.Gather(tensor.kind, tensor.parameter, options.timeout, {});
      if (!status.ok()) return status;
    }
  }
  return "";
}

absl::StatusOr<ResumePoint> OpenResumePoint(const std::string& path, const RunPlan& plan,
                                            const TrainOptions& options, const Dataset& data) {
  absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(path);
  if (!checkpoint.ok()) return checkpoint.status();
  const std::vector<std::string> differences =
      Differences(checkpoint->state, Describe(plan, options, data, 0));
  if (!differences.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        checkpoint->path, " cannot be resumed with these settings, which differ in: ",
        Join(differences), "; give the saved ones, or start anew from its weights with --init"));
  }
  ResumePoint resume;
  resume.step = checkpoint->state.step;
  resume.checkpoint = std::make_shared<const LoadedCheckpoint>(*std::move(checkpoint));
  return resume;
}

absl::Status LoadState(const ResumePoint& resume, RankState& state) {
  HostState host(&state);
  std::vector<TensorTarget> weights;
  std::vector<TensorTarget> moments;
  for (const ParameterView& view : state.parameters()) {
    const std::string& name = StoredName(*view.decl);
    weights.push_back({name, view.decl->shape, host.Place(view.weight, view.elements)});
    const int64_t count = view.count == view.elements ? -1 : view.count;
    const auto moment = [&](const char* suffix, float* values) {
      moments.push_back(
          {name + suffix, view.decl->shape, host.Place(values, view.count), view.first, count});
    };
    moment(".m", view.moment1);
    if (view.moment2 != nullptr) moment(".v", view.moment2);
  }
  absl::Status status = ReadTensors(*resume.checkpoint->weights, weights);
  if (status.ok()) status = ReadTensors(*resume.checkpoint->optimizer, moments);
  if (status.ok()) host.Upload();
  return status;
}

absl::Status LoadInitialWeights(const std::string& path, RankState& state) {
  WeightNames model;
  for (const ParameterDecl* decl : CanonicalParameters(state.plan())) {
    model.all.push_back(StoredName(*decl));
  }
  HostState host(&state);
  std::vector<TensorTarget> weights;
  for (const ParameterView& view : state.parameters()) {
    float* place = host.Place(view.weight, view.elements);
    weights.push_back({StoredName(*view.decl), view.decl->shape, place});
    if (!view.decl->tied_to.empty()) {
      model.copies.push_back({view.decl->name, view.decl->shape, place});
    }
  }
  absl::Status status = LoadWeights(path, weights, model);
  if (status.ok()) host.Upload();
  return status;
}

}  // namespace sluice
