#include "pipeline/sample/gpt_model.h"

#include <omp.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/files/mapped_file.h"
#include "models/layers/trainable.h"
#include "models/spec/model_config.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kByteValues = 256;
constexpr char kTextFingerprint[] = "text:";  // of a data set whose tokens are bytes
// Lengths are multiples of 1/16 of a usual sample's: few of them, and little padding, however long a
// text the model takes.
constexpr int64_t kLengths = 16;
constexpr int64_t kShortestLength = 16;

// Not a folder of ours (state.json, step-..., latest), and one that transformers could have saved.
bool IsHuggingFaceFolder(const fs::path& folder) {
  std::error_code ignored;
  const std::string name = folder.filename().string();
  return fs::exists(folder / kConfigFile, ignored) && !fs::exists(folder / kStateFile, ignored) &&
         !ParseStepFolder(name).has_value() && name != kLatestLink;
}

absl::StatusOr<ModelSpec> ReadConfig(const fs::path& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path.string());
  if (!file.ok()) return file.status();
  const absl::Span<const uint8_t> bytes = file->bytes();
  return ParseModelConfig({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                          path.string());
}

absl::Status CheckContinuesText(const ModelSpec& spec, const std::string& folder) {
  if (spec.decoder() != nullptr) return CheckTrainable(spec);
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " is an MLP's ('", spec.name,
                   "'), which classifies images; only a GPT continues text"));
}

absl::StatusOr<std::vector<std::unique_ptr<Layer>>> MakeLayers(const ModelSpec& spec, int64_t seq) {
  std::vector<std::unique_ptr<Layer>> layers;
  for (int index = 0; index < spec.layer_count(); ++index) {
    absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, index, {.size = 1, .seq = seq}, DType::kFloat32, CpuKernels());
    if (!layer.ok()) return layer.status();
    layers.push_back(*std::move(layer));
  }
  return layers;
}

}  // namespace

struct GptModel::Source {
  ModelSpec spec;
  std::string folder;
  bool reads_bytes = false;
};

GptModel::GptModel(ModelSpec spec, std::string path, bool reads_bytes)
    : spec_(std::move(spec)), path_(std::move(path)), reads_bytes_(reads_bytes) {}
GptModel::~GptModel() = default;

absl::StatusOr<GptModel::Source> GptModel::OpenSource(const std::string& path) {
  const fs::path given = path;
  const fs::path folder = given.has_filename() ? given : given.parent_path();  // "DIR/"
  if (IsHuggingFaceFolder(folder)) {
    absl::StatusOr<ModelSpec> spec = ReadConfig(folder / kConfigFile);
    if (!spec.ok()) return spec.status();
    if (absl::Status status = CheckContinuesText(*spec, folder.string()); !status.ok())
      return status;
    const bool bytes = spec->decoder()->vocab == kByteValues;
    return Source{.spec = *std::move(spec), .folder = folder.string(), .reads_bytes = bytes};
  }
  absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(path);
  if (!checkpoint.ok()) return checkpoint.status();
  const RunState& state = checkpoint->state;
  if (absl::Status status = CheckContinuesText(state.model, checkpoint->path); !status.ok()) {
    return status;
  }
  const bool bytes = absl::StartsWith(state.data_fingerprint, kTextFingerprint) &&
                     state.model.decoder()->vocab >= kByteValues;
  return Source{.spec = state.model, .folder = checkpoint->path, .reads_bytes = bytes};
}

absl::StatusOr<std::unique_ptr<GptModel>> GptModel::Load(const std::string& path) {
  const absl::StatusOr<Source> source = OpenSource(path);
  if (!source.ok()) return source.status();
  std::unique_ptr<GptModel> model(new GptModel(source->spec, source->folder, source->reads_bytes));
  if (absl::Status status = model->LoadParameters(*source); !status.ok()) return status;
  return model;
}

absl::Status GptModel::LoadParameters(const Source& source) {
  const absl::StatusOr<std::vector<std::unique_ptr<Layer>>> layers = MakeLayers(spec_, 1);
  if (!layers.ok()) return layers.status();
  int64_t bytes = 0;
  std::map<std::string, int64_t> offsets;  // of the parameters that are stored
  for (const std::unique_ptr<Layer>& layer : *layers) {
    for (const ParameterDecl& decl : layer->decl().parameters) {
      if (!decl.tied_to.empty()) continue;
      offsets[decl.name] = bytes;
      bytes += AlignUp(ElementCount(decl.shape) * SizeOf(DType::kFloat32));
    }
  }
  absl::StatusOr<Arena> arena = Arena::Allocate(CpuDevice(), bytes);
  if (!arena.ok()) return arena.status();
  weights_ = std::make_unique<Arena>(*std::move(arena));

  std::vector<TensorTarget> targets;
  WeightNames names;
  for (const std::unique_ptr<Layer>& layer : *layers) {
    std::vector<void*>& of_layer = parameters_.emplace_back();
    for (const ParameterDecl& decl : layer->decl().parameters) {
      const bool tied = !decl.tied_to.empty();
      of_layer.push_back(weights_->at(offsets.at(tied ? decl.tied_to : decl.name)));
      (tied ? names.copies : targets).push_back({decl.name, decl.shape, of_layer.back()});
      (tied ? names.tied : names.all).push_back(decl.name);
    }
  }
  return LoadWeights(source.folder, targets, names);
}

int64_t GptModel::LengthFor(int64_t tokens) const {
  const int64_t longest = config().max_seq;
  const int64_t unit = std::max(kShortestLength, spec_.usual_seq() / kLengths);
  return std::min(longest, (tokens + unit - 1) / unit * unit);
}

absl::StatusOr<std::unique_ptr<CachedModel>> GptModel::MakeCached(
    const CachedModelOptions& options) const {
  return CachedModel::Make(spec_, parameters_, options);
}

absl::Status GptModel::CheckTokens(absl::Span<const int32_t> tokens) const {
  for (int32_t token : tokens) {
    if (token < 0 || token >= config().vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, "; ", path_, " knows 0 to ", config().vocab - 1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Span<const float>> GptModel::Logits(absl::Span<const int32_t> tokens,
                                                         int64_t first) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 1 || count > config().max_seq) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " tokens; ", path_, " takes 1 to ", config().max_seq, " at a time"));
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
    const Piece piece = cached_->Wait();
    logits_.insert(logits_.end(), piece.logits.begin(), piece.logits.end());
  }
  return absl::MakeConstSpan(logits_);
}

}  // namespace sluice
