#include "models/layers/adapted_layers.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/layers/decoder_names.h"
#include "models/layers/projections.h"
#include "models/spec/costs/describe_decoder.h"
#include "models/spec/costs/describe_layers.h"

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

// The name of a part of a block, without ".weight" or ".bias".
std::string NameOf(const BlockNames& names, DecoderPart part) {
  const bool fused = !names.fused_map.empty();
  switch (part) {
    case DecoderPart::kAttentionNorm:
      return names.attention_norm;
    case DecoderPart::kMlpNorm:
      return names.mlp_norm;
    case DecoderPart::kAfterAttentionNorm:
      return names.after_attention_norm;
    case DecoderPart::kAfterMlpNorm:
      return names.after_mlp_norm;
    case DecoderPart::kQueryNorm:
      return names.query_norm;
    case DecoderPart::kKeyNorm:
      return names.key_norm;
    case DecoderPart::kQueryMap:
      return fused ? names.fused_map : names.query_map;
    case DecoderPart::kKeyMap:
      return fused ? names.fused_map : names.key_map;
    case DecoderPart::kValueMap:
      return fused ? names.fused_map : names.value_map;
    case DecoderPart::kOutputMap:
      return names.output_map;
    case DecoderPart::kGateMap:
      return names.gate_map;
    case DecoderPart::kUpMap:
      return names.up_map;
    case DecoderPart::kDownMap:
      return names.down_map;
    default:
      return "";
  }
}

bool IsMap(DecoderPart part) {
  return part >= DecoderPart::kQueryMap && part <= DecoderPart::kDownMap;
}

PartTraining TrainingOf(const std::string& name, const Adaptation& adaptation) {
  return {.weight = !adaptation.Freezes(absl::StrCat(name, ".weight")),
          .bias = !adaptation.Freezes(absl::StrCat(name, ".bias"))};
}

PartTraining InBlock(const BlockNames& names, DecoderPart part, const Adaptation& adaptation) {
  const std::string name = NameOf(names, part);
  PartTraining trained = TrainingOf(name, adaptation);
  const std::optional<Lora>& lora = adaptation.lora;
  if (!lora.has_value() || !IsMap(part) || !lora->Targets(name)) return trained;
  trained.adapter_rank = lora->rank;
  trained.adapter_dropout = lora->dropout > 0;
  trained.continues_adapter =
      !names.fused_map.empty() && (part == DecoderPart::kKeyMap || part == DecoderPart::kValueMap);
  return trained;
}

std::vector<LayerSpec> SpecsOf(std::vector<DecoderLayer> layers) {
  std::vector<LayerSpec> specs;
  for (DecoderLayer& layer : layers) specs.push_back(std::move(layer.spec));
  return specs;
}

}  // namespace

TrainedParts TrainedPartsOf(const DecoderConfig& config, const Adaptation& adaptation) {
  if (adaptation == Adaptation()) return {};
  return [config, adaptation](DecoderPart part, int64_t block) -> PartTraining {
    const DecoderNames names = NamesOf(config);
    switch (part) {
      case DecoderPart::kTables:
        return {.weight = !adaptation.Freezes(names.token_table)};
      case DecoderPart::kFinalNorm:
        return TrainingOf(names.final_norm, adaptation);
      case DecoderPart::kHeadMap:
        return {.weight =
                    !adaptation.Freezes(config.tied_head ? names.token_table : names.head_table)};
      default:
        return InBlock(NamesOfBlock(config, block), part, adaptation);
    }
  };
}

std::vector<LayerSpec> DescribeAdapted(const ModelSpec& spec, const BatchShape& batch,
                                       const Adaptation& adaptation, const HeadLimits& head) {
  if (const DecoderConfig* config = spec.decoder()) {
    // The counts do not depend on the type of the activations.
    return SpecsOf(DescribeDecoder(*config, batch, DType::kFloat32, {.head = head},
                                   TrainedPartsOf(*config, adaptation)));
  }
  std::vector<LayerSpec> layers = DescribeLayers(spec, batch, head);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (adaptation.Freezes(absl::StrCat("layers.", i, ".weight"))) layers[i].weight_grad_flops = 0;
  }
  return layers;
}

int64_t TrainedParameterCount(const DecoderConfig& config, const Adaptation& adaptation) {
  int64_t sum = 0;
  for (const DecoderLayer& layer : DescribeDecoder(config, BatchShape(), DType::kFloat32, {},
                                                   TrainedPartsOf(config, adaptation))) {
    sum += layer.trained_parameters();
  }
  return sum;
}

}  // namespace sluice
