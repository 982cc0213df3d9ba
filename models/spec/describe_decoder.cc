#include "models/spec/describe_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/head_blocks.h"

namespace sluice {
namespace {

int64_t Share(int64_t whole, int64_t parts) { return (whole + parts - 1) / parts; }

// One map with weights: every row of its input costs in x out multiply-adds.
struct Linear {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = false;
  int64_t copies = 1;       // experts
  double used = 1;          // how many of the copies a token goes through
  bool same_input = false;  // as the map before it, which keeps it

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
  LayerBuilder(std::string name, const BatchShape& batch, DType dtype,
               const DecoderKernels& kernels)
      : rows_(batch.rows()),
        own_rows_(kernels.sequence ? Share(rows_, kernels.tensor) : rows_),
        element_(SizeOf(dtype)) {
    layer_.spec.name = std::move(name);
  }

  void AddLinear(const Linear& linear) {
    layer_.spec.parameters += linear.parameters();
    const double flops = Flops(linear);
    layer_.spec.forward_flops += flops;
    layer_.spec.product_flops += flops;
    layer_.spec.input_grad_flops += flops;
    layer_.spec.weight_grad_flops += flops;
    layer_.products.push_back(Product(linear));
    const int64_t in = linear.same_input ? 0 : linear.width(linear.in);
    const int64_t out = linear.width(linear.out);
    layer_.weight_grad_bytes += rows_ * element_ * (in + out);
    layer_.workspace_bytes = std::max(layer_.workspace_bytes, 2 * rows_ * element_ * out);
  }
  // A map whose output is there for one block of rows at a time, with its gradient in its place.
  void AddInBlocks(const Linear& linear, const HeadBlocks& blocks) {
    layer_.spec.parameters += linear.parameters();
    const double flops = Flops(linear);
    layer_.spec.forward_flops += 2 * flops;
    layer_.spec.product_flops += flops;
    layer_.spec.weight_grad_flops += 2 * flops;
    layer_.spec.repeated_flops += flops;
    layer_.products.push_back(Product(linear));
    layer_.products.back().in_blocks = true;
    layer_.weight_grad_bytes += rows_ * element_ * linear.in;
    layer_.workspace_bytes = std::max(layer_.workspace_bytes, blocks.rows * element_ * linear.out);
  }
  void AddWeights(int64_t count) { layer_.spec.parameters += count; }
  // Products of activations, as attention's: both their gradients belong to the input gradient.
  // `multiply_adds` are those that count as FLOPs; kernels may do more.
  void AddProduct(double multiply_adds, const MatrixProduct& done) {
    layer_.spec.forward_flops += 2 * multiply_adds;
    layer_.spec.attention_flops += 2 * multiply_adds;
    layer_.spec.input_grad_flops += 4 * multiply_adds;
    layer_.products.push_back(done);
  }
  void AddSums(int forward, int input_grad) {
    layer_.forward_sums += forward;
    layer_.input_grad_sums += input_grad;
  }
  // `width` elements of the compute type a row.
  void Keep(const char* op, int64_t width, bool rebuilt = false) {
    KeepBytes(op, rows_ * width * element_, rebuilt);
  }
  // Like Keep(), for tensors that are not split over the tensor-parallel ranks (with sequence
  // parallelism: this rank's tokens).
  void KeepWhole(const char* op, int64_t width, bool rebuilt = false) {
    KeepBytes(op, own_rows_ * width * element_, rebuilt);
  }
  void KeepMask(const char* op, int64_t width) { KeepBytes(op, own_rows_ * width); }
  void KeepBytes(const char* op, int64_t bytes, bool rebuilt = false) {
    if (bytes > 0) layer_.saved.push_back({op, bytes, rebuilt});
  }
  void set_output(int64_t width) { layer_.spec.output_elements = rows_ * width; }
  int64_t rows() const { return rows_; }
  int64_t element() const { return element_; }
  DecoderLayer Take() { return std::move(layer_); }

 private:
  double Flops(const Linear& linear) const {
    return 2 * static_cast<double>(rows_) * linear.multiply_adds();
  }
  MatrixProduct Product(const Linear& linear) const {
    const auto copies = static_cast<double>(linear.copies);
    return {.rows = static_cast<double>(rows_) * linear.used / copies,
            .out = static_cast<double>(linear.out),
            .in = static_cast<double>(linear.in),
            .count = copies};
  }

  int64_t rows_, own_rows_, element_;
  DecoderLayer layer_;
};

int64_t NormWeights(const DecoderConfig& config, int64_t width) {
  return width * (config.norm == NormKind::kLayer ? 2 : 1);
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
  layer->KeepWhole("query, key, value maps", config.dim, /*rebuilt=*/true);
  layer->AddLinear({config.dim, widths.query, config.qkv_bias});
  layer->AddLinear({config.dim, widths.key, config.qkv_bias, 1, 1, /*same_input=*/true});
  layer->AddLinear({config.dim, widths.value, config.qkv_bias, 1, 1, /*same_input=*/true});
  if (!config.qk_norm) return;
  layer->AddWeights(2 * NormWeights(config, config.head_dim));
  layer->Keep("query and key norms", widths.query + widths.key);
}

// DeepSeek-V2, 2024, equations 37 to 47.
void AddLatentProjections(const DecoderConfig& config, LayerBuilder* layer) {
  const LatentAttention& latent = *config.latent;
  const HeadWidths widths = WidthsOf(config);
  layer->KeepWhole("query, key, value maps", config.dim, /*rebuilt=*/true);
  if (latent.query_rank == 0) {
    layer->AddLinear({config.dim, widths.query});
  } else {
    layer->AddLinear({config.dim, latent.query_rank, config.qkv_bias});
    layer->AddWeights(NormWeights(config, latent.query_rank));
    layer->AddLinear({latent.query_rank, widths.query});
    layer->KeepWhole("query norm", latent.query_rank);
    layer->KeepWhole("query map", latent.query_rank, /*rebuilt=*/true);
  }
  layer->AddLinear({config.dim, latent.key_value_rank + latent.rotary_dim, config.qkv_bias, 1, 1,
                    /*same_input=*/true});
  layer->AddWeights(NormWeights(config, latent.key_value_rank));
  layer->AddLinear({latent.key_value_rank, config.heads * (latent.plain_dim + latent.value_dim)});
  layer->KeepWhole("key and value norm", latent.key_value_rank);
  layer->KeepWhole("key and value map", latent.key_value_rank, /*rebuilt=*/true);
}

// Pairs of tokens that attend to each other: the causal half, or a band of `reach` below the
// diagonal.
double AttendedPairs(int64_t seq, int64_t reach) {
  const auto s = static_cast<double>(seq), w = static_cast<double>(std::min(reach, seq));
  return w >= s ? s * s / 2 : w * s - w * w / 2;
}

// Queries with keys, and what comes of it with values. Without flash attention all pairs are
// computed and half of them masked.
void AddScores(const DecoderConfig& config, const BatchShape& batch, int64_t reach,
               const DecoderKernels& kernels, LayerBuilder* layer) {
  const HeadWidths widths = WidthsOf(config);
  const int64_t value_out = config.latent ? widths.value : widths.query;
  const auto seq = static_cast<double>(batch.seq);
  const double pairs = AttendedPairs(batch.seq, reach);
  const double seen = kernels.flash_attention ? pairs / seq : seq;
  const auto heads = static_cast<double>(config.heads), size = static_cast<double>(batch.size);
  const auto add = [&](int64_t width, bool scores) {
    const double head = static_cast<double>(width) / heads;
    layer->AddProduct(pairs * size * static_cast<double>(width), {.rows = seq,
                                                                  .out = scores ? seen : head,
                                                                  .in = scores ? head : seen,
                                                                  .count = size * heads,
                                                                  .weights = false});
  };
  add(widths.query, true);
  add(value_out, false);
}

// What Korthikanti et al. 2022, section 4.1, counts for one block without flash attention:
// 5 a s^2 b bytes of scores, softmax and mask; with it, one fp32 sum a row and head.
void AddAttention(const DecoderConfig& config, const BatchShape& batch, int64_t reach,
                  const DecoderKernels& kernels, LayerBuilder* layer) {
  const HeadWidths widths = WidthsOf(config);
  const int64_t value_out = config.latent ? widths.value : widths.query;
  AddScores(config, batch, reach, kernels, layer);
  layer->Keep("attention: query, key", widths.query + widths.key);
  layer->Keep("attention: value", widths.value);
  if (kernels.flash_attention) {
    layer->KeepBytes("attention: sums", batch.rows() * config.heads * SizeOf(DType::kFloat32));
  } else {
    const int64_t scores = config.heads * batch.seq * batch.seq * batch.size;
    layer->KeepBytes("attention: softmax", scores * layer->element(), /*rebuilt=*/true);
    if (kernels.dropout) {
      layer->KeepBytes("attention: mask", scores, /*rebuilt=*/true);
      layer->KeepBytes("attention: masked", scores * layer->element(), /*rebuilt=*/true);
    }
  }
  layer->Keep("attention: output map", value_out);
  layer->AddLinear({value_out, config.dim, config.output_bias});
  if (kernels.dropout) layer->KeepMask("residual mask", config.dim);
}

// `used` of `copies` MLPs of inner width `hidden`.
void AddMlp(const DecoderConfig& config, int64_t hidden, int64_t copies, double used,
            LayerBuilder* layer) {
  const auto width = static_cast<int64_t>(used * static_cast<double>(hidden));
  if (HasGate(config.mlp)) {
    layer->AddLinear({config.dim, hidden, config.mlp_bias, copies, used});
    layer->Keep("gate", width);
  }
  layer->AddLinear({config.dim, hidden, config.mlp_bias, copies, used, HasGate(config.mlp)});
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
  layer->KeepWhole("norms", config.norms * config.dim);
  if (config.latent) {
    AddLatentProjections(config, layer);
  } else {
    AddPlainProjections(config, layer);
  }
  AddAttention(config, batch, config.Reach(block, batch.seq), kernels, layer);
  layer->KeepWhole("MLP", config.dim, /*rebuilt=*/true);
  if (config.HasExperts(block)) {
    AddExperts(config, layer);
  } else {
    AddMlp(config, config.hidden, 1, 1, layer);
  }
  if (kernels.dropout) layer->KeepMask("residual mask", config.dim);
  layer->AddSums(2, 2);  // after attention and after the MLP, and before them on the way back
  layer->set_output(config.dim);
}

DecoderLayer DescribeEmbedding(const DecoderConfig& config, const BatchShape& batch, DType dtype,
                               const DecoderKernels& kernels) {
  LayerBuilder layer("embedding", batch, dtype, kernels);
  layer.AddWeights(config.vocab * config.dim);
  if (config.learned_positions) layer.AddWeights(config.max_seq * config.dim);
  layer.KeepBytes("tokens", batch.rows() * int64_t{4});
  if (kernels.dropout) layer.KeepMask("mask", config.dim);
  layer.AddSums(1, 0);  // a rank knows its part of the vocabulary
  layer.set_output(config.dim);
  return layer.Take();
}

// The final norm, the map to the vocabulary and the loss. In one block its fp32 probabilities are
// kept; in several only the gradient of the map's input, which F computes.
void AddHead(const DecoderConfig& config, bool own_matrix, const HeadLimits& limits,
             LayerBuilder* layer) {
  layer->AddWeights(NormWeights(config, config.dim));
  layer->KeepWhole("norm", config.dim);
  layer->KeepWhole("head map", config.dim, /*rebuilt=*/true);
  const HeadBlocks blocks = HeadBlocksOf(layer->rows(), config.vocab, limits);
  if (!own_matrix) layer->AddWeights(-config.dim * config.vocab);
  if (blocks.whole()) {
    layer->AddLinear({config.dim, config.vocab});
    layer->AddSums(0, 1);
    layer->KeepBytes("loss", layer->rows() * config.vocab * SizeOf(DType::kFloat32));
    return;
  }
  layer->AddInBlocks({config.dim, config.vocab}, blocks);
  layer->AddSums(1, 0);
  layer->KeepWhole("loss", config.dim);
}

// DeepSeek-V3, 2024, equations 21 to 25: the block's input is a map of the normed hidden state next
// to the normed embedding of the next token; embedding and head are the model's own.
DecoderLayer DescribeAhead(const DecoderConfig& config, const BatchShape& batch, DType dtype,
                           const DecoderKernels& kernels, int64_t index) {
  LayerBuilder layer(absl::StrCat("predict ahead ", index), batch, dtype, kernels);
  layer.AddWeights(2 * NormWeights(config, config.dim));
  layer.KeepWhole("input norms", 2 * config.dim);
  layer.KeepWhole("input map", 2 * config.dim, /*rebuilt=*/true);
  layer.AddLinear({2 * config.dim, config.dim});
  AddBlock(config, batch, config.layers + index, kernels, &layer);
  AddHead(config, /*own_matrix=*/false, kernels.head, &layer);
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

// What one of `tensor` ranks computes of every layer; no width in it follows from another one.
DecoderConfig RankPart(const DecoderConfig& whole, int64_t tensor) {
  DecoderConfig part = whole;
  part.head_dim = whole.head_width();
  part.heads = Share(whole.heads, tensor);
  part.kv_heads = Share(whole.key_value_heads(), tensor);
  part.hidden = Share(whole.mlp_width(), tensor);
  part.vocab = Share(whole.vocab, tensor);
  if (part.experts) {
    part.experts->hidden = Share(whole.experts->hidden, tensor);
    part.experts->shared_hidden = Share(whole.experts->shared_hidden, tensor);
  }
  return part;
}

}  // namespace

int64_t DecoderLayer::saved_bytes() const { return SumBytes(saved, /*rebuilt_only=*/false); }
int64_t DecoderLayer::rebuilt_bytes() const { return SumBytes(saved, /*rebuilt_only=*/true); }

std::vector<DecoderLayer> DescribeDecoder(const DecoderConfig& whole, const BatchShape& batch,
                                          DType dtype, const DecoderKernels& kernels) {
  const DecoderConfig config = RankPart(whole, kernels.tensor);
  std::vector<DecoderLayer> layers = {DescribeEmbedding(config, batch, dtype, kernels)};
  for (int64_t block = 0; block < config.layers; ++block) {
    LayerBuilder layer(absl::StrCat("block ", block), batch, dtype, kernels);
    AddBlock(config, batch, block, kernels, &layer);
    layers.push_back(layer.Take());
  }
  for (int64_t i = 0; i < config.predict_ahead; ++i) {
    layers.push_back(DescribeAhead(config, batch, dtype, kernels, i));
  }
  LayerBuilder head("head", batch, dtype, kernels);
  AddHead(config, !config.tied_head, kernels.head, &head);
  layers.push_back(head.Take());
  return layers;
}

}  // namespace sluice
