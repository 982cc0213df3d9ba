#include "pipeline/sample/gpt_model.h"

#include <omp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/layers/decoder_names.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "pipeline/checkpoint/adapters/merge_adapter.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

// Lengths are multiples of 1/16 of a usual sample's: few of them, and little padding, however long a
// text the model takes.
constexpr int64_t kLengths = 16;
constexpr int64_t kShortestLength = 16;

}  // namespace

GptModel::GptModel(ModelFolder folder) : folder_(std::move(folder)) {}
GptModel::~GptModel() = default;

absl::StatusOr<std::unique_ptr<GptModel>> GptModel::Load(const std::string& path,
                                                         const std::string& adapter) {
  absl::StatusOr<ModelFolder> folder = OpenModelFolder(path);
  if (!folder.ok()) return folder.status();
  std::unique_ptr<GptModel> model(new GptModel(*std::move(folder)));
  absl::Status status = model->LoadParameters();
  if (status.ok() && !adapter.empty()) status = model->Merge(adapter);
  if (!status.ok()) return status;
  return model;
}

absl::Status GptModel::Merge(const std::string& path) {
  const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(path);
  if (!adapter.ok()) return adapter.status();
  const absl::StatusOr<std::vector<LinearMap>> maps = AdaptedMaps(*adapter, config());
  if (!maps.ok()) return maps.status();
  for (const LinearMap& map : *maps) {
    const auto weight = stored_.find(absl::StrCat(map.name, ".weight"));
    absl::Status status = weight == stored_.end()
                              ? absl::InternalError(absl::StrCat("no weight of ", map.name))
                              : MergeAdapter(*adapter, map, HasGpt2Parameters(config()),
                                             weights_->at<float>(weight->second));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status GptModel::LoadParameters() {
  const auto layers = DeclareParameters(folder_.spec);
  if (!layers.ok()) return layers.status();
  int64_t bytes = 0;
  for (const std::vector<ParameterDecl>& layer : *layers) {
    for (const ParameterDecl& decl : layer) {
      if (!decl.tied_to.empty()) continue;
      stored_[decl.name] = bytes;
      bytes += AlignUp(ElementCount(decl.shape) * SizeOf(DType::kFloat32));
    }
  }
  absl::StatusOr<Arena> arena = Arena::Allocate(CpuDevice(), bytes);
  if (!arena.ok()) return arena.status();
  weights_ = std::make_unique<Arena>(*std::move(arena));

  std::vector<TensorTarget> targets;
  WeightNames names;
  for (const std::vector<ParameterDecl>& layer : *layers) {
    std::vector<void*>& of_layer = parameters_.emplace_back();
    for (const ParameterDecl& decl : layer) {
      const bool tied = !decl.tied_to.empty();
      of_layer.push_back(weights_->at(stored_.at(tied ? decl.tied_to : decl.name)));
      (tied ? names.copies : targets).push_back({decl.name, decl.shape, of_layer.back()});
      (tied ? names.tied : names.all).push_back(decl.name);
    }
  }
  return LoadWeights(folder_.path, targets, names);
}

int64_t GptModel::LengthFor(int64_t tokens) const {
  const int64_t longest = config().max_seq;
  const int64_t unit = std::max(kShortestLength, folder_.spec.usual_seq() / kLengths);
  return std::min(longest, (tokens + unit - 1) / unit * unit);
}

absl::StatusOr<std::unique_ptr<CachedModel>> GptModel::MakeCached(
    const CachedModelOptions& options) const {
  return CachedModel::Make(folder_.spec, parameters_, options);
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
