#ifndef SLUICE_MODELS_SPEC_MODEL_SPEC_H_
#define SLUICE_MODELS_SPEC_MODEL_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/dtype.h"

namespace sluice {

// What brings a row to one scale before a block's maps and the head: layer norm (Ba et al. 2016),
// with gain and bias, or RMS norm (Zhang and Sennrich 2019), with a gain alone.
enum class NormKind : uint8_t { kLayer, kRms };

const char* NormName(NormKind kind);  // "layer", "rms"
std::optional<NormKind> ParseNorm(absl::string_view name);

// GPT-2's architecture: learned positions, pre-norm blocks, GELU (tanh), biases, optionally tied
// head; its norms may be others.
struct GptConfig {
  int layers = 6;  // transformer blocks
  int dim = 384;
  int heads = 6;  // dim must be a multiple
  int vocab = 256;
  int max_seq = 256;
  int hidden = 0;  // inner width of the MLP; 0 means 4 * dim
  bool tied_head = false;
  float norm_epsilon = 1e-5f;
  NormKind norm = NormKind::kLayer;

  int mlp_width() const { return hidden > 0 ? hidden : 4 * dim; }
  friend bool operator==(const GptConfig&, const GptConfig&) = default;
};

// A multi-layer perceptron classifier: `widths` = input, hidden..., classes; ReLU between.
struct MlpConfig {
  std::vector<int> widths = {784, 512, 256, 10};
  friend bool operator==(const MlpConfig&, const MlpConfig&) = default;
};

// A model that sluice can train. Its layers, numbered from 0, are what partitions speak of:
//   GPT: 0 the embedding, 1..layers the blocks, layers + 1 the final norm and head (layers + 2 in
//   all); MLP: one a weight matrix (widths - 1 in all).
struct ModelSpec {
  std::string name;
  std::variant<GptConfig, MlpConfig> config;

  int layer_count() const;
  const GptConfig* gpt() const { return std::get_if<GptConfig>(&config); }
  const MlpConfig* mlp() const { return std::get_if<MlpConfig>(&config); }
};

// The shape of one micro-batch: `size` samples, each of `seq` tokens (1 for an MLP).
struct BatchShape {
  int64_t size = 1;
  int64_t seq = 1;
  int64_t rows() const { return size * seq; }
};

// What a stage forgets between forward and backward: nothing; attention outputs and element-wise
// results, cheap to rebuild (Korthikanti et al. 2022, section 5); everything but each layer's
// input.
enum class Recompute : uint8_t { kNone, kSelective, kFull };

// What one layer is, from shapes alone, for one micro-batch. FLOPs count a multiply-add as two;
// matrix products only, and causal attention at half (as the MFU of the literature does).
struct LayerSpec {
  std::string name;  // "embedding", "block 3", "head", "linear 0"
  int64_t parameters = 0;
  double forward_flops = 0;
  double input_grad_flops = 0;
  double weight_grad_flops = 0;
  int64_t output_elements = 0;  // activations sent on, per micro-batch (of the compute type)
};

// InvalidArgument names the field when the configuration makes no sense (0 heads, dim no multiple
// of heads, ...).
absl::Status ValidateSpec(const ModelSpec& spec);
std::vector<LayerSpec> DescribeLayers(const ModelSpec& spec, const BatchShape& batch);
int64_t ParameterCount(const ModelSpec& spec);
// Matrix-product FLOPs of forward and backward over one micro-batch (recomputation not counted).
double FlopsPerMicroBatch(const ModelSpec& spec, const BatchShape& batch);

// Presets: "char-gpt", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "mlp". NotFound lists them.
absl::StatusOr<ModelSpec> PresetModel(absl::string_view name);
// Whether ParseHuggingFaceConfig reads a config.json of this model_type: gpt2, or sluice_gpt, as
// which a GPT is written that transformers would take for another one.
bool IsGptModelType(absl::string_view model_type);
// A Hugging Face config.json of such a model_type, of which "norm" ("layer", "rms"; layer where
// absent) is sluice's own. InvalidArgument names the field (and `name`, the file) that is missing,
// of the wrong type or not supported.
absl::StatusOr<ModelSpec> ParseHuggingFaceConfig(absl::string_view json, absl::string_view name);
// The reverse: a config.json that transformers loads as GPT2LMHeadModel, or, with RMS norms, does
// not load. Requires a GPT.
std::string FormatHuggingFaceConfig(const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_MODEL_SPEC_H_
