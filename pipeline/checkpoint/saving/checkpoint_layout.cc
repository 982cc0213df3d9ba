#include "pipeline/checkpoint/saving/checkpoint_layout.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "models/files/safetensors_header.h"
#include "models/layers/decoder_names.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/peft_config.h"
#include "pipeline/state/rank_state.h"

namespace sluice {
namespace {

constexpr uint64_t kElementBytes = sizeof(float);

// A tensor of a checkpoint.
struct StoredTensor {
  StateKind kind = StateKind::kWeight;
  int parameter = 0;  // canonical index
};

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

std::vector<TensorShape> ShapesOf(const std::vector<const ParameterDecl*>& parameters,
                                  const std::vector<StoredTensor>& tensors) {
  std::vector<TensorShape> shapes;
  for (const StoredTensor& tensor : tensors) {
    const ParameterDecl& decl = *parameters[static_cast<size_t>(tensor.parameter)];
    shapes.push_back({.name = decl.name + Suffix(tensor.kind), .shape = decl.shape});
  }
  return shapes;
}

// Lays one file out.
class FileLayout {
 public:
  FileLayout(const RunPlan& plan, std::vector<StoredTensor> tensors)
      : plan_(plan),
        parameters_(CanonicalParameters(plan)),
        tensors_(std::move(tensors)),
        rank_of_(RanksOfParameters()) {}

  absl::StatusOr<CheckpointFile> Make(const std::string& name) {
    absl::StatusOr<std::string> head = Head();
    if (!head.ok()) return head.status();
    file_.name = name;
    file_.head = *std::move(head);
    file_.bytes = file_.head.size();
    CountUndivided();
    for (const StoredTensor& tensor : tensors_) {
      if (IsDivided(tensor)) {
        AddSlices(tensor);
      } else {
        AddShares(tensor);
      }
    }
    return std::move(file_);
  }

 private:
  std::vector<int> RanksOfParameters() const {
    const std::vector<int> rank_of_layer = RankOfLayers(plan_);
    std::vector<int> ranks;
    for (size_t layer = 0; layer < plan_.layers.size(); ++layer)
      ranks.insert(ranks.end(), plan_.layers[layer].parameters.size(), rank_of_layer[layer]);
    return ranks;
  }

  absl::StatusOr<std::string> Head() const {
    return FormatSafetensorsHead(ShapesOf(parameters_, tensors_), TensorMetadata());
  }

  // Whether each replica has its slice only.
  bool IsDivided(const StoredTensor& tensor) const {
    const bool split = parameters_[static_cast<size_t>(tensor.parameter)]->is_split();
    return (split || tensor.kind != StateKind::kWeight) && plan_.zero(RankOf(tensor)) >= 1;
  }
  int RankOf(const StoredTensor& tensor) const {
    return rank_of_[static_cast<size_t>(tensor.parameter)];
  }
  int64_t Elements(const StoredTensor& tensor) const {
    return ElementCount(parameters_[static_cast<size_t>(tensor.parameter)]->shape);
  }

  void CountUndivided() {
    for (const StoredTensor& tensor : tensors_) {
      if (!IsDivided(tensor)) undivided_[RankOf(tensor)].all += Elements(tensor);
    }
  }

  void Add(const StoredTensor& tensor, int replica, int64_t first, int64_t count) {
    if (count == 0) return;
    file_.parts.push_back({.kind = tensor.kind,
                           .parameter = tensor.parameter,
                           .owner = plan_.GroupOf(RankOf(tensor)).rank(replica),
                           .first = first,
                           .count = count,
                           .offset = file_.bytes});
    file_.bytes += static_cast<uint64_t>(count) * kElementBytes;
  }

  void AddSlices(const StoredTensor& tensor) {
    const std::vector<int64_t>& bounds = plan_.shards[static_cast<size_t>(tensor.parameter)];
    for (size_t k = 0; k + 1 < bounds.size(); ++k)
      Add(tensor, static_cast<int>(k), bounds[k], bounds[k + 1] - bounds[k]);
  }

  // Replica k writes the k-th part of all that a rank of the pipeline has: few owners in a row.
  void AddShares(const StoredTensor& tensor) {
    Undivided& of_rank = undivided_[RankOf(tensor)];
    const int64_t elements = Elements(tensor);
    const int replicas = plan_.GroupOf(RankOf(tensor)).size;
    for (int64_t first = 0; first < elements;) {
      // The share that element number `placed` is in, and where that ends.
      const auto share = static_cast<int>(of_rank.placed * replicas / of_rank.all);
      const int64_t end = ((share + 1) * of_rank.all + replicas - 1) / replicas;
      const int64_t count = std::min(elements - first, end - of_rank.placed);
      Add(tensor, share, first, count);
      first += count;
      of_rank.placed += count;
    }
  }

  struct Undivided {
    int64_t all = 0;
    int64_t placed = 0;
  };

  const RunPlan& plan_;
  const std::vector<const ParameterDecl*> parameters_;
  const std::vector<StoredTensor> tensors_;
  const std::vector<int> rank_of_;      // [parameter]: rank of the pipeline
  std::map<int, Undivided> undivided_;  // by rank of the pipeline: elements
  CheckpointFile file_;
};

// All files of a checkpoint that have tensors, and the index of the weights.
class CheckpointLayout {
 public:
  explicit CheckpointLayout(const RunPlan& plan) : plan_(plan) {}

  absl::Status AddFile(const std::string& name, std::vector<StoredTensor> tensors) {
    absl::StatusOr<CheckpointFile> file = FileLayout(plan_, std::move(tensors)).Make(name);
    if (!file.ok()) return file.status();
    files_.push_back(*std::move(file));
    return absl::OkStatus();
  }

  absl::Status AddWeights(const std::vector<StoredTensor>& weights, int64_t shard_bytes) {
    const std::vector<TensorShape> shapes = ShapesOf(CanonicalParameters(plan_), weights);
    const std::vector<WeightShard> shards = DivideIntoShards(shapes, shard_bytes);
    for (const WeightShard& shard : shards) {
      const auto first = weights.begin() + static_cast<std::ptrdiff_t>(shard.first);
      absl::Status status =
          AddFile(shard.name, {first, first + static_cast<std::ptrdiff_t>(shard.count)});
      if (!status.ok()) return status;
    }
    if (shards.size() == 1) return absl::OkStatus();
    absl::StatusOr<std::string> index = IndexOf(shapes, shards);
    if (!index.ok()) return index.status();
    const uint64_t bytes = index->size();
    files_.push_back(
        {.name = kWeightsIndexFile, .head = *std::move(index), .bytes = bytes, .parts = {}});
    return absl::OkStatus();
  }

  // What PEFT loads.
  absl::Status AddAdapter(const std::string& base) {
    const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan_);
    std::vector<StoredTensor> adapter;
    std::vector<std::string> names;
    for (size_t index = 0; index < parameters.size(); ++index) {
      if (!IsAdapter(parameters[index]->name)) continue;
      adapter.push_back({StateKind::kWeight, static_cast<int>(index)});
      names.push_back(parameters[index]->name);
    }
    std::string config = PeftConfig(*plan_.request.adaptation.lora, names,
                                    HasGpt2Parameters(*plan_.request.spec.decoder()), base);
    const uint64_t bytes = config.size();
    files_.push_back(
        {.name = kAdapterConfigFile, .head = std::move(config), .bytes = bytes, .parts = {}});
    return AddFile(kAdapterFile, std::move(adapter));
  }

  std::vector<CheckpointFile> Take() { return std::move(files_); }

 private:
  const RunPlan& plan_;
  std::vector<CheckpointFile> files_;
};

}  // namespace

absl::StatusOr<std::vector<CheckpointFile>> LayOutCheckpoint(const RunPlan& plan,
                                                             int64_t shard_bytes,
                                                             const std::string& base) {
  std::vector<StoredTensor> weights;
  std::vector<StoredTensor> moments;
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  for (int index = 0; index < static_cast<int>(parameters.size()); ++index) {
    if (!parameters[static_cast<size_t>(index)]->tied_to.empty()) continue;
    weights.push_back({StateKind::kWeight, index});
    if (parameters[static_cast<size_t>(index)]->frozen) continue;
    moments.push_back({StateKind::kMoment1, index});
    if (plan.request.optimizer == OptimizerKind::kAdamW)
      moments.push_back({StateKind::kMoment2, index});
  }
  CheckpointLayout layout(plan);
  absl::Status status = plan.request.adaptation.lora.has_value()
                            ? layout.AddAdapter(base)
                            : layout.AddWeights(weights, shard_bytes);
  if (status.ok()) status = layout.AddFile(kOptimizerFile, std::move(moments));
  if (!status.ok()) return status;
  return layout.Take();
}

}  // namespace sluice
