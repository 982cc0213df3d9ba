#include "models/spec_decoder.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// One map with weights: every row of its input costs in x out multiply-adds.
struct Linear {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = false;
  int64_t copies = 1;  // experts
  double used = 1;     // how many of the copies a token goes through

  int64_t parameters() const { return copies * (in * out + (bias ? out : 0)); }
  // Elements of one side that a token brings along.
  int64_t width(int64_t side) const {
    return static_cast<int64_t>(used * static_cast<double>(side));
  }
  double multiply_adds() const { return used * static_cast<double>(in) * static_cast<double>(out); }
};

// Collects a layer's parameters, FLOPs and saved tensors.
class LayerBuilder {
 public:
  LayerBuilder(std::string name, const BatchShape& batch, DType dtype)
      : rows_(batch.rows()), element_(SizeOf(dtype)) {
    layer_.spec.name = std::move(name);
  }

  void AddLinear(const Linear& linear) {
    layer_.spec.parameters += linear.parameters();
    const double flops = 2 * static_cast<double>(rows_) * linear.multiply_adds();
    layer_.spec.forward_flops += flops;
    layer_.spec.input_grad_flops += flops;
    layer_.spec.weight_grad_flops += flops;
    // Maps that stand one after the other on the same input (query, key, value) keep it once.
    const bool same_input = linear.in == last_in_;
    last_in_ = linear.in;
    const int64_t in = same_input ? 0 : linear.width(linear.in);
    const int64_t out = linear.width(linear.out);
    layer_.weight_grad_bytes += rows_ * element_ * (in + out);
    layer_.workspace_bytes = std::max(layer_.workspace_bytes, 2 * rows_ * element_ * out);
  }
  void AddWeights(int64_t count) { layer_.spec.parameters += count; }
  // A product of activations, as attention's: both its gradients belong to the input gradient.
  void AddProduct(double multiply_adds) {
    layer_.spec.forward_flops += 2 * multiply_adds;
    layer_.spec.input_grad_flops += 4 * multiply_adds;
  }
  // `width` elements of the compute type a row.
  void Keep(const char* op, int64_t width, bool rebuilt = false) {
    KeepBytes(op, rows_ * width * element_, rebuilt);
  }
  void KeepBytes(const char* op, int64_t bytes, bool rebuilt = false) {
    if (bytes > 0) layer_.saved.push_back({op, bytes, rebuilt});
  }
  void set_output(int64_t width) { layer_.spec.output_elements = rows_ * width; }
  int64_t rows() const { return rows_; }
  int64_t element() const { return element_; }
  DecoderLayer Take() { return std::move(layer_); }

 private:
  int64_t rows_, element_;
  int64_t last_in_ = -1;
  DecoderLayer layer_;
};

int64_t NormWeights(const DecoderConfig& config, int64_t width) {
  return width * (config.norm_bias ? 2 : 1);
}

// Queries, keys and values of all heads, a row of activations.
struct HeadWidths {
  int64_t query, key, value;
};

HeadWidths WidthsOf(const DecoderConfig& config) {
  if (const auto& latent = config.latent) {
    const int64_t key = latent->plain_dim + latent->rotary_dim;
    return {config.heads * key, config.heads * key, config.heads * latent->value_dim};
  }
  return {config.heads * config.head_dim, config.kv_heads * config.head_dim,
          config.kv_heads * config.head_dim};
}

void AddPlainProjections(const DecoderConfig& config, LayerBuilder* layer) {
  const HeadWidths widths = WidthsOf(config);
  layer->Keep("query, key, value maps", config.dim, /*rebuilt=*/true);
  layer->AddLinear({config.dim, widths.query, config.qkv_bias});
  layer->AddLinear({config.dim, widths.key, config.qkv_bias});
  layer->AddLinear({config.dim, widths.value, config.qkv_bias});
  if (!config.qk_norm) return;
  layer->AddWeights(2 * NormWeights(config, config.head_dim));
  layer->Keep("query and key norms", widths.query + widths.key);
}

// DeepSeek-V2, 2024, equations 37 to 47.
void AddLatentProjections(const DecoderConfig& config, LayerBuilder* layer) {
  const LatentAttention& latent = *config.latent;
  const HeadWidths widths = WidthsOf(config);
  layer->Keep("query, key, value maps", config.dim, /*rebuilt=*/true);
  if (latent.query_rank == 0) {
    layer->AddLinear({config.dim, widths.query});
  } else {
    layer->AddLinear({config.dim, latent.query_rank, config.qkv_bias});
    layer->AddWeights(NormWeights(config, latent.query_rank));
    layer->AddLinear({latent.query_rank, widths.query});
    layer->Keep("query norm", latent.query_rank);
    layer->Keep("query map", latent.query_rank, /*rebuilt=*/true);
  }
  layer->AddLinear({config.dim, latent.key_value_rank + latent.rotary_dim, config.qkv_bias});
  layer->AddWeights(NormWeights(config, latent.key_value_rank));
  layer->AddLinear({latent.key_value_rank, config.heads * (latent.plain_dim + latent.value_dim)});
  layer->Keep("key and value norm", latent.key_value_rank);
  layer->Keep("key and value map", latent.key_value_rank, /*rebuilt=*/true);
}

// Pairs of tokens that attend to each other: the causal half, or a band of `reach` below the
// diagonal.
double AttendedPairs(int64_t seq, int64_t reach) {
  const auto s = static_cast<double>(seq), w = static_cast<double>(std::min(reach, seq));
  return w >= s ? s * s / 2 : w * s - w * w / 2;
}

// What Korthikanti et al. 2022, section 4.1, counts for one block without flash attention:
// 5 a s^2 b bytes of scores, softmax and mask; with it, one fp32 sum a row and head.
void AddAttention(const DecoderConfig& config, const BatchShape& batch, int64_t reach,
                  const DecoderKernels& kernels, LayerBuilder* layer) {
  const HeadWidths widths = WidthsOf(config);
  const double pairs = AttendedPairs(batch.seq, reach) * static_cast<double>(batch.size);
  const int64_t value_out = config.latent ? widths.value : widths.query;
  layer->AddProduct(pairs * static_cast<double>(widths.query));
  layer->AddProduct(pairs * static_cast<double>(value_out));
  layer->Keep("attention: query, key", widths.query + widths.key);
  layer->Keep("attention: value", widths.value);
  const int64_t scores = config.heads * batch.seq * batch.seq * batch.size;
  if (kernels.flash_attention) {
    layer->KeepBytes("attention: sums", batch.rows() * config.heads * SizeOf(DType::kFloat32));
  } else {
    layer->KeepBytes("attention: softmax", scores * layer->element(), /*rebuilt=*/true);
    if (kernels.dropout) {
      layer->KeepBytes("attention: mask", scores, /*rebuilt=*/true);
      layer->KeepBytes("attention: masked", scores * layer->element(), /*rebuilt=*/true);
    }
  }
  layer->Keep("attention: output map", value_out);
  layer->AddLinear({value_out, config.dim, config.output_bias});
  if (kernels.dropout) layer->KeepBytes("residual mask", batch.rows() * config.dim);
}

// `used` of `copies` MLPs of inner width `hidden`.
void AddMlp(const DecoderConfig& config, int64_t hidden, int64_t copies, double used,
            LayerBuilder* layer) {
  const auto width = static_cast<int64_t>(used * static_cast<double>(hidden));
  if (config.gated_mlp) {
    layer->AddLinear({config.dim, hidden, config.mlp_bias, copies, used});
    layer->Keep("gate", width);
  }
  layer->AddLinear({config.dim, hidden, config.mlp_bias, copies, used});
  layer->Keep("activation", width);
  layer->AddLinear({hidden, config.dim, config.mlp_bias, copies, used});
  layer->Keep("down map", width, /*rebuilt=*/true);
}

void AddExperts(const DecoderConfig& config, LayerBuilder* layer) {
  const Experts& experts = *config.experts;
  const auto active = static_cast<double>(experts.active);
  layer->AddLinear({config.dim, experts.count});
  layer->KeepBytes("router", layer->rows() * experts.count * SizeOf(DType::kFloat32));
  // Each expert reads its tokens gathered, and its outputs wait to be weighted.
  layer->Keep("expert inputs", experts.active * config.dim, /*rebuilt=*/true);
  AddMlp(config, experts.hidden, experts.count, active, layer);
  layer->Keep("expert outputs", experts.active * config.dim);
  if (experts.shared_hidden == 0) return;
  AddMlp(config, experts.shared_hidden, 1, 1, layer);
  if (experts.shared_gate) {
    layer->AddLinear({config.dim, 1});
    layer->Keep("shared expert's gate", 1 + config.dim);
  }
}

void AddBlock(const DecoderConfig& config, const BatchShape& batch, int64_t block,
              const DecoderKernels& kernels, LayerBuilder* layer) {
  layer->AddWeights(config.norms * NormWeights(config, config.dim));
  layer->Keep("norms", config.norms * config.dim);
  if (config.latent) {
    AddLatentProjections(config, layer);
  } else {
    AddPlainProjections(config, layer);
  }
  AddAttention(config, batch, config.Reach(block, batch.seq), kernels, layer);
  layer->Keep("MLP", config.dim, /*rebuilt=*/true);
  if (config.HasExperts(block)) {
    AddExperts(config, layer);
  } else {
    AddMlp(config, config.hidden, 1, 1, layer);
  }
  if (kernels.dropout) layer->KeepBytes("residual mask", layer->rows() * config.dim);
  layer->set_output(config.dim);
}

DecoderLayer DescribeEmbedding(const DecoderConfig& config, const BatchShape& batch, DType dtype,
                               const DecoderKernels& kernels) {
  LayerBuilder layer("embedding", batch, dtype);
  layer.AddWeights(config.vocab * config.dim);
  if (config.learned_positions) layer.AddWeights(config.max_seq * config.dim);
  layer.KeepBytes("tokens", batch.rows() * int64_t{4});
  if (kernels.dropout) layer.KeepBytes("mask", batch.rows() * config.dim);
  layer.set_output(config.dim);
  return layer.Take();
}

// The final norm, the map to the vocabulary and the loss, whose fp32 probabilities are kept.
void AddHead(const DecoderConfig& config, bool own_matrix, LayerBuilder* layer) {
  layer->AddWeights(NormWeights(config, config.dim));
  layer->Keep("norm", config.dim);
  layer->Keep("head map", config.dim, /*rebuilt=*/true);
  layer->AddLinear({config.dim, config.vocab});
  if (!own_matrix) layer->AddWeights(-config.dim * config.vocab);
  layer->KeepBytes("loss", layer->rows() * config.vocab * SizeOf(DType::kFloat32));
}

// DeepSeek-V3, 2024, equations 21 to 25: the block's input is a map of the normed hidden state next
// to the normed embedding of the next token; embedding and head are the model's own.
DecoderLayer DescribeAhead(const DecoderConfig& config, const BatchShape& batch, DType dtype,
                           const DecoderKernels& kernels, int64_t index) {
  LayerBuilder layer(absl::StrCat("predict ahead ", index), batch, dtype);
  layer.AddWeights(2 * NormWeights(config, config.dim));
  layer.Keep("input norms", 2 * config.dim);
  layer.Keep("input map", 2 * config.dim, /*rebuilt=*/true);
  layer.AddLinear({2 * config.dim, config.dim});
  AddBlock(config, batch, config.layers + index, kernels, &layer);
  AddHead(config, /*own_matrix=*/false, &layer);
  layer.set_output(config.dim);
  return layer.Take();
}

int64_t SumBytes(const std::vector<SavedTensor>& saved, bool rebuilt_only) {
  int64_t sum = 0;
  for (const SavedTensor& tensor : saved) {
    if (tensor.rebuilt || !rebuilt_only) sum += tensor.bytes;
  }
  return sum;
}

}  // namespace

bool DecoderConfig::HasExperts(int64_t block) const {
  return experts && block >= experts->first_block &&
         (block - experts->first_block) % experts->every == 0;
}

int64_t DecoderConfig::Reach(int64_t block, int64_t seq) const {
  const bool global = window == 0 || (global_every > 0 && (block + 1) % global_every == 0);
  return global ? seq : std::min(seq, window);
}

int64_t DecoderLayer::saved_bytes() const { return SumBytes(saved, /*rebuilt_only=*/false); }
int64_t DecoderLayer::rebuilt_bytes() const { return SumBytes(saved, /*rebuilt_only=*/true); }

std::vector<DecoderLayer> DescribeDecoder(const DecoderConfig& config, const BatchShape& batch,
                                          DType dtype, const DecoderKernels& kernels) {
  std::vector<DecoderLayer> layers = {DescribeEmbedding(config, batch, dtype, kernels)};
  for (int64_t block = 0; block < config.layers; ++block) {
    LayerBuilder layer(absl::StrCat("block ", block), batch, dtype);
    AddBlock(config, batch, block, kernels, &layer);
    layers.push_back(layer.Take());
  }
  for (int64_t i = 0; i < config.predict_ahead; ++i) {
    layers.push_back(DescribeAhead(config, batch, dtype, kernels, i));
  }
  LayerBuilder head("head", batch, dtype);
  AddHead(config, !config.tied_head, &head);
  layers.push_back(head.Take());
  return layers;
}

int64_t ParameterCount(const DecoderConfig& config) {
  const std::vector<DecoderLayer> layers = DescribeDecoder(config, {}, DType::kBFloat16);
  return std::accumulate(
      layers.begin(), layers.end(), int64_t{0},
      [](int64_t sum, const DecoderLayer& layer) { return sum + layer.spec.parameters; });
}

}  // namespace sluice
