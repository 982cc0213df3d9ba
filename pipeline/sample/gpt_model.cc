#include "pipeline/sample/gpt_model.h"

#include <omp.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/shards.h"
#include "models/layers/cached_layer.h"
#include "models/layers/decoder_names.h"
#include "models/spec/bfloat16.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "pipeline/checkpoint/adapters/merge_adapter.h"
#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

// Lengths are multiples of 1/16 of a usual sample's: few of them, and little padding, however long a
// text the model takes.
constexpr int64_t kLengths = 16;
constexpr int64_t kShortestLength = 16;

// What each layer's parameters are where nothing is trained.
absl::StatusOr<std::vector<std::vector<ParameterDecl>>> CachedParameters(
    const ModelSpec& spec, const ComputeChoice& compute) {
  std::vector<std::vector<ParameterDecl>> layers;
  for (int index = 0; index < spec.layer_count(); ++index) {
    const auto layer =
        MakeCachedLayer(spec, index, /*rows=*/1, /*positions=*/1, compute.dtype, *compute.kernels);
    if (!layer.ok()) return layer.status();
    layers.push_back((*layer)->decl().parameters);
  }
  return layers;
}

}  // namespace

GptModel::GptModel(ModelFolder folder, const ComputeChoice& compute)
    : folder_(std::move(folder)), compute_(compute) {}
GptModel::~GptModel() = default;

absl::StatusOr<std::unique_ptr<GptModel>> GptModel::Load(const std::string& path,
                                                         const std::string& adapter,
                                                         const ComputeChoice& compute) {
  absl::StatusOr<ModelFolder> folder = OpenModelFolder(path);
  if (!folder.ok()) return folder.status();
  std::unique_ptr<GptModel> model(new GptModel(*std::move(folder), compute));
  const absl::StatusOr<Files> files = model->AllocateParameters();
  if (!files.ok()) return files.status();
  absl::Status status = LoadWeights(model->path(), files->targets, files->names);
  if (status.ok() && !adapter.empty()) status = model->Merge(adapter, *files);
  if (!status.ok()) return status;
  return model;
}

// One weight after the other, from its file again, so that it is rounded once: behind the sum.
absl::Status GptModel::Merge(const std::string& path, const Files& files) {
  const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(path);
  if (!adapter.ok()) return adapter.status();
  const absl::StatusOr<std::vector<LinearMap>> maps = AdaptedMaps(*adapter, config());
  if (!maps.ok()) return maps.status();
  std::vector<TensorTarget> weights;
  for (const LinearMap& map : *maps) {
    const auto weight = std::find_if(
        files.targets.begin(), files.targets.end(),
        [name = absl::StrCat(map.name, ".weight")](const auto& t) { return t.name == name; });
    if (weight == files.targets.end())
      return absl::InternalError(absl::StrCat("no weight of ", map.name));
    weights.push_back(*weight);
  }
  const auto file = OpenModelWeights(folder_.path);
  if (!file.ok()) return file.status();
  const auto names = MatchWeights(**file, weights, files.names);
  if (!names.ok()) return names.status();
  std::vector<float> values;
  for (size_t i = 0; i < weights.size(); ++i) {
    const TensorTarget& weight = weights[i];
    values.resize(static_cast<size_t>(ElementCount(weight.shape)));
    absl::Status status = (*file)->Read((*names)[i], weight.shape, values.data());
    if (status.ok())
      status = MergeAdapter(*adapter, (*maps)[i], HasGpt2Parameters(config()), values.data());
    if (!status.ok()) return status;
    if (weight.dtype == DType::kBFloat16) {
      ToBFloat16(ElementCount(weight.shape), values.data(), static_cast<uint16_t*>(weight.data));
    } else {
      std::copy(values.begin(), values.end(), static_cast<float*>(weight.data));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GptModel::Files> GptModel::AllocateParameters() {
  const auto layers = CachedParameters(folder_.spec, compute_);
  if (!layers.ok()) return layers.status();
  std::map<std::string, int64_t> stored;  // where each parameter is that is stored
  int64_t bytes = 0;
  for (const std::vector<ParameterDecl>& layer : *layers) {
    for (const ParameterDecl& decl : layer) {
      if (!decl.tied_to.empty()) continue;
      stored[decl.name] = bytes;
      bytes += AlignUp(decl.stored_bytes());
    }
  }
  absl::StatusOr<Arena> arena = Arena::Allocate(CpuDevice(), bytes);
  if (!arena.ok()) return arena.status();
  weights_ = std::make_unique<Arena>(*std::move(arena));

  Files files;
  WeightNames& names = files.names;
  for (const std::vector<ParameterDecl>& layer : *layers) {
    std::vector<void*>& of_layer = parameters_.emplace_back();
    for (const ParameterDecl& decl : layer) {
      const bool tied = !decl.tied_to.empty();
      of_layer.push_back(weights_->at(stored.at(tied ? decl.tied_to : decl.name)));
      (tied ? names.copies : files.targets)
          .push_back({.name = decl.name,
                      .shape = decl.shape,
                      .data = of_layer.back(),
                      .dtype = decl.dtype});
      if (tied) {
        names.tied.push_back({decl.name, decl.tied_to});
      } else {
        names.all.push_back(decl.name);
      }
    }
  }
  return files;
}

int64_t GptModel::LengthFor(int64_t tokens) const {
  const int64_t longest = config().max_seq;
  const int64_t unit = std::max(kShortestLength, folder_.spec.usual_seq() / kLengths);
  return std::min(longest, (tokens + unit - 1) / unit * unit);
}

absl::StatusOr<std::unique_ptr<CachedModel>> GptModel::MakeCached(
    const CachedModelOptions& options) const {
  return CachedModel::Make(folder_.spec, parameters_, options, compute_);
}

absl::Status GptModel::CheckTokens(absl::Span<const int32_t> tokens) const {
  for (int32_t token : tokens) {
    if (token < 0 || token >= config().vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, "; ", path(), " knows 0 to ", config().vocab - 1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const float>> GptModel::Logits(absl::Span<const int32_t> tokens,
                                                         int64_t first) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 1 || count > config().max_seq) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " tokens; ", path(), " takes 1 to ", config().max_seq, " at a time"));
  }
  if (first < 0 || first >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("logits from token ", first, " on; expected 0 to ", count - 1));
  }
  if (absl::Status status = CheckTokens(tokens); !status.ok()) return status;
  if (cached_ == nullptr || cached_->positions() != LengthFor(count)) {
    cached_.reset();  // before the next one takes memory
    absl::StatusOr<std::unique_ptr<CachedModel>> cached =
        MakeCached({.positions = LengthFor(count), .stages = 1, .threads = omp_get_max_threads()});
    if (!cached.ok()) return cached.status();
    cached_ = *std::move(cached);
  }
  absl::StatusOr<CachedSequence> sequence = cached_->NewSequence();
  if (!sequence.ok()) return sequence.status();
  logits_.clear();
  while (!tokens.empty()) {
    tokens.remove_prefix(static_cast<size_t>(cached_->Submit(*sequence, tokens, count - first)));
    const absl::StatusOr<Piece> piece = cached_->Wait();
    if (!piece.ok()) return piece.status();
    logits_.insert(logits_.end(), piece->logits.begin(), piece->logits.end());
  }
  return absl::MakeConstSpan(logits_);
}

}  // namespace sluice
