#include "models/spec/costs/describe_layers.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/describe_decoder.h"

namespace sluice {
namespace {

constexpr double kFlopsPerMultiplyAdd = 2;

double ProductFlops(int64_t rows, int64_t in, int64_t out) {
  return kFlopsPerMultiplyAdd * static_cast<double>(rows) * static_cast<double>(in) *
         static_cast<double>(out);
}

int64_t LinearParameters(int64_t in, int64_t out) { return in * out + out; }

// The counts do not depend on the type of the activations.
std::vector<LayerSpec> DescribeDecoderLayers(const DecoderConfig& config, const BatchShape& batch,
                                             const HeadLimits& head) {
  std::vector<LayerSpec> layers;
  for (DecoderLayer& layer : DescribeDecoder(config, batch, DType::kFloat32, {.head = head})) {
    layers.push_back(std::move(layer.spec));
  }
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
    layer.weight_grad_flops = layer.product_flops = layer.forward_flops;
    layer.output_elements = i + 1 == count ? 0 : batch.rows() * out;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

std::vector<LayerSpec> DescribeLayers(const ModelSpec& spec, const BatchShape& batch,
                                      const HeadLimits& head) {
  return spec.decoder() != nullptr ? DescribeDecoderLayers(*spec.decoder(), batch, head)
                                   : DescribeMlp(*spec.mlp(), batch);
}

int64_t ParameterCount(const ModelSpec& spec) {
  const std::vector<LayerSpec> layers = DescribeLayers(spec, BatchShape{});
  return std::accumulate(
      layers.begin(), layers.end(), int64_t{0},
      [](int64_t sum, const LayerSpec& layer) { return sum + layer.parameters; });
}

double FlopsPerMicroBatch(const std::vector<LayerSpec>& layers) {
  double sum = 0;
  for (const LayerSpec& layer : layers) {
    sum += layer.forward_flops + layer.input_grad_flops + layer.weight_grad_flops -
           layer.repeated_flops;
  }
  return sum;
}

}  // namespace sluice
