#include "models/spec/model_spec.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr double kFlopsPerMultiplyAdd = 2;

double ProductFlops(int64_t rows, int64_t in, int64_t out) {
  return kFlopsPerMultiplyAdd * static_cast<double>(rows) * static_cast<double>(in) *
         static_cast<double>(out);
}

int64_t LinearParameters(int64_t in, int64_t out) { return in * out + out; }
// Gain, and a layer norm's bias.
int64_t NormParameters(const GptConfig& config) {
  return (config.norm == NormKind::kLayer ? 2 : 1) * int64_t{config.dim};
}

LayerSpec DescribeEmbedding(const GptConfig& config, const BatchShape& batch) {
  LayerSpec layer{.name = "embedding"};
  layer.parameters = (int64_t{config.vocab} + config.max_seq) * config.dim;
  layer.output_elements = batch.rows() * config.dim;
  return layer;
}

// Korthikanti et al. 2022, appendix A: a block's linear maps cost 24 t d^2 with a four times wider
// MLP, attention 4 t s d, of which the causal mask leaves half. Backward: each product has one for
// each operand's gradient; attention's operands are all activations, so both belong to the input
// gradient.
LayerSpec DescribeBlock(const GptConfig& config, const BatchShape& batch, int block) {
  const int64_t dim = config.dim, hidden = config.mlp_width(), rows = batch.rows();
  const double linear = ProductFlops(rows, dim, 3 * dim) + ProductFlops(rows, dim, dim) +
                        ProductFlops(rows, dim, hidden) + ProductFlops(rows, hidden, dim);
  const double attention = 2 * ProductFlops(rows, batch.seq, dim) / 2;
  LayerSpec layer{.name = absl::StrCat("block ", block)};
  layer.parameters = 2 * NormParameters(config) + LinearParameters(dim, 3 * dim) +
                     LinearParameters(dim, dim) + LinearParameters(dim, hidden) +
                     LinearParameters(hidden, dim);
  layer.forward_flops = linear + attention;
  layer.input_grad_flops = linear + 2 * attention;
  layer.weight_grad_flops = linear;
  layer.output_elements = rows * dim;
  return layer;
}

LayerSpec DescribeHead(const GptConfig& config, const BatchShape& batch) {
  const int64_t matrix = int64_t{config.vocab} * config.dim;
  LayerSpec layer{.name = "head"};
  layer.parameters = NormParameters(config) + (config.tied_head ? 0 : matrix);
  layer.forward_flops = ProductFlops(batch.rows(), config.dim, config.vocab);
  layer.input_grad_flops = layer.forward_flops;
  layer.weight_grad_flops = layer.forward_flops;
  return layer;
}

std::vector<LayerSpec> DescribeGpt(const GptConfig& config, const BatchShape& batch) {
  std::vector<LayerSpec> layers = {DescribeEmbedding(config, batch)};
  for (int block = 0; block < config.layers; ++block) {
    layers.push_back(DescribeBlock(config, batch, block));
  }
  layers.push_back(DescribeHead(config, batch));
  return layers;
}

std::vector<LayerSpec> DescribeMlp(const MlpConfig& config, const BatchShape& batch) {
  std::vector<LayerSpec> layers;
  const size_t count = config.widths.size() - 1;
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = config.widths[i], out = config.widths[i + 1];
    LayerSpec layer{.name = absl::StrCat("linear ", i)};
    layer.parameters = LinearParameters(in, out);
    layer.forward_flops = ProductFlops(batch.rows(), in, out);
    layer.input_grad_flops = i == 0 ? 0 : layer.forward_flops;
    layer.weight_grad_flops = layer.forward_flops;
    layer.output_elements = i + 1 == count ? 0 : batch.rows() * out;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

const char* NormName(NormKind kind) { return kind == NormKind::kLayer ? "layer" : "rms"; }

std::optional<NormKind> ParseNorm(absl::string_view name) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    if (name == NormName(kind)) return kind;
  }
  return std::nullopt;
}

int ModelSpec::layer_count() const {
  if (gpt() != nullptr) return gpt()->layers + 2;
  return static_cast<int>(mlp()->widths.size()) - 1;
}

std::vector<LayerSpec> DescribeLayers(const ModelSpec& spec, const BatchShape& batch) {
  return spec.gpt() != nullptr ? DescribeGpt(*spec.gpt(), batch) : DescribeMlp(*spec.mlp(), batch);
}

int64_t ParameterCount(const ModelSpec& spec) {
  const std::vector<LayerSpec> layers = DescribeLayers(spec, BatchShape{});
  return std::accumulate(
      layers.begin(), layers.end(), int64_t{0},
      [](int64_t sum, const LayerSpec& layer) { return sum + layer.parameters; });
}

double FlopsPerMicroBatch(const ModelSpec& spec, const BatchShape& batch) {
  double sum = 0;
  for (const LayerSpec& layer : DescribeLayers(spec, batch)) {
    sum += layer.forward_flops + layer.input_grad_flops + layer.weight_grad_flops;
  }
  return sum;
}

}  // namespace sluice
