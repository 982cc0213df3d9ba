#include "models/layers/adapted_layers.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "models/layers/decoder_names.h"
#include "models/layers/projections.h"
#include "models/spec/describe_layers.h"

namespace sluice {

std::vector<LinearMap> LinearMapsOf(const DecoderConfig& config, int64_t block) {
  const BlockNames names = NamesOfBlock(config, block);
  const HeadLayout heads = HeadLayoutOf(config);
  std::vector<LinearMap> maps;
  if (heads.fused) {
    maps.push_back({names.fused_map, config.dim, heads.q_stride});
  } else {
    maps = {{names.query_map, config.dim, heads.q_width},
            {names.key_map, config.dim, heads.kv_width},
            {names.value_map, config.dim, heads.kv_width}};
  }
  maps.push_back({names.output_map, heads.q_width, config.dim});
  if (HasGate(config.mlp)) maps.push_back({names.gate_map, config.dim, config.mlp_width()});
  maps.push_back({names.up_map, config.dim, config.mlp_width()});
  maps.push_back({names.down_map, config.mlp_width(), config.dim});
  return maps;
}

namespace {

void Adapt(const LinearMap& map, const Adaptation& adaptation, const BatchShape& batch,
           LayerSpec* layer) {
  const double flops_per_weight = 2 * static_cast<double>(batch.rows());
  if (adaptation.Freezes(absl::StrCat(map.name, ".weight"))) {
    layer->weight_grad_flops -=
        flops_per_weight * static_cast<double>(map.in) * static_cast<double>(map.out);
  }
  if (!adaptation.lora.has_value() || !adaptation.lora->Targets(map.name)) return;
  const double flops = flops_per_weight * static_cast<double>(adaptation.lora->rank) *
                       static_cast<double>(map.in + map.out);
  layer->forward_flops += flops;
  layer->product_flops += flops;
  layer->input_grad_flops += flops;
  layer->weight_grad_flops += flops;
}

void AdaptDecoder(const DecoderConfig& config, const BatchShape& batch,
                  const Adaptation& adaptation, std::vector<LayerSpec>* layers) {
  for (int64_t block = 0; block < config.layers; ++block) {
    for (const LinearMap& map : LinearMapsOf(config, block))
      Adapt(map, adaptation, batch, &(*layers)[static_cast<size_t>(block) + 1]);
  }
  const DecoderNames names = NamesOf(config);
  if (!adaptation.Freezes(config.tied_head ? names.token_table : names.head_table)) return;
  layers->back().weight_grad_flops = layers->back().repeated_flops = 0;
}

}  // namespace

std::vector<LayerSpec> DescribeAdapted(const ModelSpec& spec, const BatchShape& batch,
                                       const Adaptation& adaptation, const HeadLimits& head) {
  std::vector<LayerSpec> layers = DescribeLayers(spec, batch, head);
  if (spec.decoder() != nullptr) {
    AdaptDecoder(*spec.decoder(), batch, adaptation, &layers);
    return layers;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (adaptation.Freezes(absl::StrCat("layers.", i, ".weight"))) layers[i].weight_grad_flops = 0;
  }
  return layers;
}

double AdaptedFlopsPerMicroBatch(const ModelSpec& spec, const BatchShape& batch,
                                 const Adaptation& adaptation) {
  double sum = 0;
  for (const LayerSpec& layer : DescribeAdapted(spec, batch, adaptation)) {
    sum += layer.forward_flops + layer.input_grad_flops + layer.weight_grad_flops -
           layer.repeated_flops;
  }
  return sum;
}

}  // namespace sluice
