#include "models/spec/costs/describe_decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/costs/layer_builder.h"
#include "models/spec/head_blocks.h"

namespace sluice {
namespace {

void AddNorm(const DecoderConfig& config, DecoderPart part, int64_t width, LayerBuilder* layer) {
  layer->AddNorm(part, width, /*centered=*/config.norm == NormKind::kLayer);
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
  layer->KeepWhole(
      "query, key, value maps", config.dim, /*rebuilt=*/true,
      layer->ReadsInput({DecoderPart::kQueryMap, DecoderPart::kKeyMap, DecoderPart::kValueMap}));
  const auto add = [&](DecoderPart part, int64_t width) {
    layer->AddLinear({.in = config.dim,
                      .out = width,
                      .bias = config.qkv_bias,
                      .same_input = part != DecoderPart::kQueryMap,
                      .part = part});
  };
  add(DecoderPart::kQueryMap, widths.query);
  add(DecoderPart::kKeyMap, widths.key);
  add(DecoderPart::kValueMap, widths.value);
  if (!config.qk_norm) return;
  AddNorm(config, DecoderPart::kQueryNorm, config.head_dim, layer);
  AddNorm(config, DecoderPart::kKeyNorm, config.head_dim, layer);
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
    AddNorm(config, DecoderPart::kOther, latent.query_rank, layer);
    layer->AddLinear({latent.query_rank, widths.query});
    layer->KeepWhole("query norm", latent.query_rank);
    layer->KeepWhole("query map", latent.query_rank, /*rebuilt=*/true);
  }
  layer->AddLinear({config.dim, latent.key_value_rank + latent.rotary_dim, config.qkv_bias, 1, 1,
                    /*same_input=*/true});
  AddNorm(config, DecoderPart::kOther, latent.key_value_rank, layer);
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
  // Flash attention's own backward reads its output, too.
  layer->Keep("attention: output map", value_out, /*rebuilt=*/false,
              kernels.flash_attention || layer->ReadsInput({DecoderPart::kOutputMap}));
  layer->AddLinear({.in = value_out,
                    .out = config.dim,
                    .bias = config.output_bias,
                    .part = DecoderPart::kOutputMap,
                    .cut = MapCut::kInputs});
  if (kernels.dropout) layer->KeepMask("residual mask", config.dim);
}

// The three maps of an MLP: a block's, or those of experts.
struct MlpParts {
  DecoderPart gate = DecoderPart::kOther, up = DecoderPart::kOther, down = DecoderPart::kOther;
};
constexpr MlpParts kBlockMlp = {DecoderPart::kGateMap, DecoderPart::kUpMap, DecoderPart::kDownMap};

// `used` of `copies` MLPs of inner width `hidden`.
void AddMlp(const DecoderConfig& config, int64_t hidden, bool bias, int64_t copies, double used,
            const MlpParts& parts, LayerBuilder* layer) {
  const auto width = static_cast<int64_t>(used * static_cast<double>(hidden));
  const auto add = [&](DecoderPart part, int64_t in, int64_t out, bool same_input, MapCut cut) {
    layer->AddLinear({in, out, bias, copies, used, same_input, part, cut});
  };
  const bool gate = HasGate(config.mlp);
  if (gate) {
    add(parts.gate, config.dim, hidden, /*same_input=*/false, MapCut::kOutputs);
    layer->Keep("gate", width);
  }
  add(parts.up, config.dim, hidden, /*same_input=*/gate, MapCut::kOutputs);
  layer->Keep("activation", width);
  add(parts.down, hidden, config.dim, /*same_input=*/false, MapCut::kInputs);
  layer->Keep("down map", width, /*rebuilt=*/true, layer->ReadsInput({parts.down}));
}

void AddExperts(const DecoderConfig& config, LayerBuilder* layer) {
  const Experts& experts = *config.experts;
  const auto active = static_cast<double>(experts.active);
  layer->AddLinear({config.dim, experts.count});
  layer->KeepBytes("router", layer->rows() * experts.count * SizeOf(DType::kFloat32));
  // Each expert reads its tokens gathered, and its outputs wait to be weighted.
  layer->Keep("expert inputs", experts.active * config.dim, /*rebuilt=*/true);
  AddMlp(config, experts.hidden, /*bias=*/false, experts.count, active, {}, layer);
  layer->Keep("expert outputs", experts.active * config.dim);
  if (experts.shared_hidden == 0) return;
  AddMlp(config, experts.shared_hidden, config.mlp_bias, 1, 1, {}, layer);
  if (experts.shared_gate) {
    layer->AddLinear({config.dim, 1});
    layer->Keep("shared expert's gate", 1 + config.dim);
  }
}

void AddBlockNorms(const DecoderConfig& config, LayerBuilder* layer) {
  constexpr DecoderPart kParts[] = {DecoderPart::kAttentionNorm, DecoderPart::kMlpNorm,
                                    DecoderPart::kAfterAttentionNorm, DecoderPart::kAfterMlpNorm};
  for (int64_t norm = 0; norm < config.norms; ++norm) {
    const bool known = norm < std::ssize(kParts);
    AddNorm(config, known ? kParts[norm] : DecoderPart::kOther, config.dim, layer);
  }
}

void AddBlock(const DecoderConfig& config, const BatchShape& batch, int64_t block,
              const DecoderKernels& kernels, LayerBuilder* layer) {
  AddBlockNorms(config, layer);
  layer->KeepWhole("norms", config.norms * config.dim);
  if (config.latent) {
    AddLatentProjections(config, layer);
  } else {
    AddPlainProjections(config, layer);
  }
  AddAttention(config, batch, config.Reach(block, batch.seq), kernels, layer);
  const bool experts = config.HasExperts(block);
  layer->KeepWhole("MLP", config.dim, /*rebuilt=*/true,
                   experts || layer->ReadsInput({kBlockMlp.gate, kBlockMlp.up}));
  if (experts) {
    AddExperts(config, layer);
  } else {
    AddMlp(config, config.hidden, config.mlp_bias, 1, 1, kBlockMlp, layer);
  }
  if (kernels.dropout) layer->KeepMask("residual mask", config.dim);
  layer->AddSums(2, 2);  // after attention and after the MLP, and before them on the way back
  layer->set_output(config.dim);
}

DecoderLayer DescribeEmbedding(const DecoderConfig& config, const BatchShape& batch, DType dtype,
                               const DecoderKernels& kernels, const TrainedParts& parts) {
  LayerBuilder layer("embedding", batch, dtype, kernels, parts);
  const int64_t positions = config.learned_positions ? config.max_seq : 0;
  layer.AddWeights(DecoderPart::kTables, (config.vocab + positions) * config.dim);
  layer.KeepBytes("tokens", batch.rows() * int64_t{4}, /*rebuilt=*/false,
                  layer.ReadsInput({DecoderPart::kTables}));
  if (kernels.dropout) layer.KeepMask("mask", config.dim);
  layer.AddSums(1, 0);  // a rank knows its part of the vocabulary
  layer.set_output(config.dim);
  return layer.Take();
}

// The final norm, the map to the vocabulary and the loss. In one block its fp32 probabilities are
// kept; in several only the gradient of the map's input, which F computes.
void AddHead(const DecoderConfig& config, bool own_matrix, const HeadLimits& limits,
             LayerBuilder* layer) {
  AddNorm(config, DecoderPart::kFinalNorm, config.dim, layer);
  layer->KeepWhole("norm", config.dim);
  layer->KeepWhole("head map", config.dim, /*rebuilt=*/true,
                   layer->ReadsInput({DecoderPart::kHeadMap}));
  const HeadBlocks blocks = config.head_blocks(layer->rows(), limits);
  if (!own_matrix) layer->AddWeights(DecoderPart::kHeadMap, -config.dim * config.vocab);
  const DecoderMap map = {.in = config.dim, .out = config.vocab, .part = DecoderPart::kHeadMap};
  if (blocks.whole()) {
    layer->AddLinear(map);
    layer->AddSums(0, 1);
    layer->KeepBytes("loss", layer->rows() * config.vocab * SizeOf(DType::kFloat32));
    return;
  }
  layer->AddInBlocks(map, blocks);
  layer->AddSums(1, 0);
  layer->KeepWhole("loss", config.dim);
}

// DeepSeek-V3, 2024, equations 21 to 25: the block's input is a map of the normed hidden state next
// to the normed embedding of the next token; embedding and head are the model's own.
DecoderLayer DescribeAhead(const DecoderConfig& config, const BatchShape& batch, DType dtype,
                           const DecoderKernels& kernels, const TrainedParts& parts,
                           int64_t index) {
  LayerBuilder layer(absl::StrCat("predict ahead ", index), batch, dtype, kernels, parts,
                     config.layers + index);
  AddNorm(config, DecoderPart::kOther, 2 * config.dim, &layer);
  layer.KeepWhole("input norms", 2 * config.dim);
  layer.KeepWhole("input map", 2 * config.dim, /*rebuilt=*/true);
  layer.AddLinear({2 * config.dim, config.dim});
  AddBlock(config, batch, config.layers + index, kernels, &layer);
  AddHead(config, /*own_matrix=*/false, kernels.head, &layer);
  layer.set_output(config.dim);
  return layer.Take();
}

template <typename Predicate>
int64_t SumBytes(const std::vector<SavedTensor>& saved, Predicate counts) {
  int64_t sum = 0;
  for (const SavedTensor& tensor : saved) {
    if (counts(tensor)) sum += tensor.bytes;
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

int64_t DecoderLayer::saved_bytes() const {
  return SumBytes(saved, [](const SavedTensor& tensor) { return tensor.kept; });
}
int64_t DecoderLayer::rebuilt_bytes() const {
  return SumBytes(saved, [](const SavedTensor& tensor) { return tensor.kept && tensor.rebuilt; });
}
int64_t DecoderLayer::seen_bytes() const {
  return SumBytes(saved, [](const SavedTensor&) { return true; });
}

std::vector<DecoderLayer> DescribeDecoder(const DecoderConfig& whole, const BatchShape& batch,
                                          DType dtype, const DecoderKernels& kernels,
                                          const TrainedParts& parts) {
  const DecoderConfig config = RankPart(whole, kernels.tensor);
  std::vector<DecoderLayer> layers = {DescribeEmbedding(config, batch, dtype, kernels, parts)};
  for (int64_t block = 0; block < config.layers; ++block) {
    LayerBuilder layer(absl::StrCat("block ", block), batch, dtype, kernels, parts, block);
    AddBlock(config, batch, block, kernels, &layer);
    layers.push_back(layer.Take());
  }
  for (int64_t i = 0; i < config.predict_ahead; ++i) {
    layers.push_back(DescribeAhead(config, batch, dtype, kernels, parts, i));
  }
  LayerBuilder head("head", batch, dtype, kernels, parts);
  AddHead(config, !config.tied_head, kernels.head, &head);
  layers.push_back(head.Take());
  return layers;
}

}  // namespace sluice
