#include "models/layers/trainable.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "models/kernels/portable_kernels.h"
#include "models/layers/decoder_names.h"
#include "models/spec/validate.h"

namespace sluice {
namespace {

// What the model has, and what the layers compute in its place.
struct Gap {
  std::string has;
  std::string computed;
};

// What no family's block computes.
std::optional<Gap> BlockGap(const DecoderConfig& config) {
  if (config.experts) {
    return Gap{absl::StrCat("a mixture of ", config.experts->count, " experts"),
               "one MLP per block"};
  }
  if (config.latent) {
    return Gap{"latent attention", "queries, keys and values from one map each"};
  }
  if (config.norms != 2 && config.norms != 4) {
    return Gap{absl::StrCat(config.norms, " norms per block"),
               "2: one before attention, one before the MLP; or 4: one after each, too"};
  }
  if (config.predict_ahead > 0) {
    return Gap{absl::StrCat(config.predict_ahead, " blocks that predict further tokens"), "none"};
  }
  if (config.norm == NormKind::kLayer && config.norms == 4) {
    return Gap{"layer norms after attention and the MLP", "RMS norms there"};
  }
  if (config.norm == NormKind::kLayer && config.qk_norm) {
    return Gap{"layer norms over queries and keys", "RMS norms there"};
  }
  if (config.norm == NormKind::kLayer && config.norm_offset) {
    return Gap{"layer norms with an offset", "RMS norms with one"};
  }
  return std::nullopt;
}

// GPT-2's parameters have no names, and its config.json no fields, for what came later.
std::optional<Gap> Gpt2Gap(const DecoderConfig& config) {
  if (!config.learned_positions) return Gap{"rotary positions", "a learned table of positions"};
  if (HasGate(config.mlp)) {
    return Gap{absl::StrCat("a gated MLP (", MlpName(config.mlp), ")"),
               absl::StrCat("an MLP with ", MlpName(MlpKind::kGelu), " and no gate")};
  }
  if (config.key_value_heads() != config.heads) {
    return Gap{absl::StrCat("grouped queries (", config.heads, " heads of queries, ",
                            config.key_value_heads(), " of keys and values)"),
               "as many heads of keys and values as of queries"};
  }
  if (config.heads * config.head_width() != config.dim) {
    return Gap{absl::StrCat(config.heads, " heads of ", config.head_width(),
                            " values in a width of ", config.dim),
               "heads that together are as wide as the model"};
  }
  if (config.norms != 2) return Gap{"norms after attention and the MLP", "none"};
  if (config.norm_offset) return Gap{"norms with an offset", "norms without one"};
  if (config.qk_norm) return Gap{"norms over queries and keys", "none"};
  if (config.window > 0) {
    return Gap{absl::StrCat("a sliding window of ", config.window, " tokens"),
               "attention to all earlier tokens"};
  }
  if (!config.qkv_bias || !config.output_bias) {
    return Gap{"attention without biases", "a bias in each of its maps"};
  }
  if (!config.mlp_bias) return Gap{"an MLP without biases", "a bias in each of its maps"};
  if (config.embedding_scale != 1 || config.attention_scale != 0) {
    return Gap{"scales of its own for embeddings or scores", "those of GPT-2"};
  }
  if (config.attention_soft_cap != 0) return Gap{"a soft cap over scores", "none"};
  if (config.final_soft_cap != 0) return Gap{"a soft cap over its logits", "none"};
  return std::nullopt;
}

std::optional<Gap> LlamaGap(const DecoderConfig& config) {
  if (config.learned_positions) return Gap{"a learned table of positions", "rotary positions"};
  // The layers would, but no config.json of these families can say so.
  if (config.norm == NormKind::kLayer) return Gap{"layer norms", "RMS norms"};
  return std::nullopt;
}

std::optional<Gap> FirstGap(const DecoderConfig& config) {
  if (std::optional<Gap> gap = BlockGap(config)) return gap;
  return HasGpt2Parameters(config) ? Gpt2Gap(config) : LlamaGap(config);
}

bool NamesOne(const std::string& pattern, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&pattern](const std::string& name) { return MatchesPattern(pattern, name); });
}

// Whether a map that `lora` targets, whose weight is among `names`, has one of `adapters`.
bool HasAdapter(const Lora& lora, const std::vector<std::string>& names,
                const std::vector<std::string>& adapters) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const absl::string_view map = absl::StripSuffix(name, ".weight");
    return lora.Targets(map) &&
           std::find(adapters.begin(), adapters.end(), AdapterA(map)) != adapters.end();
  });
}

// What an adapter may be for, by the last parts of their names: the matrices of the blocks, which
// lie between the embedding and the head. In the order of a block.
std::vector<std::string> MapNames(const std::vector<LayerDecl>& layers) {
  std::vector<std::string> maps;
  for (size_t i = 1; i + 1 < layers.size(); ++i) {
    for (const ParameterDecl& parameter : layers[i].parameters) {
      if (parameter.shape.size() != 2 || IsAdapter(parameter.name)) continue;
      const absl::string_view name = absl::StripSuffix(parameter.name, ".weight");
      std::string map(name.substr(name.rfind('.') + 1));
      if (std::find(maps.begin(), maps.end(), map) == maps.end()) maps.push_back(std::move(map));
    }
  }
  return maps;
}

}  // namespace

absl::Status CheckTrainable(const ModelSpec& spec) {
  if (absl::Status status = ValidateSpec(spec); !status.ok()) return status;
  if (spec.decoder() == nullptr) return absl::OkStatus();
  const std::optional<Gap> gap = FirstGap(*spec.decoder());
  if (!gap) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model '", spec.name, "' (", spec.decoder()->family, ") has ", gap->has,
                   ", which can be planned for but not trained; expected ", gap->computed));
}

absl::Status CheckAdaptation(const ModelSpec& spec, const Adaptation& adaptation) {
  if (spec.decoder() == nullptr) {
    return !adaptation.lora.has_value()
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("--lora: model '", spec.name,
                                                         "' is an MLP; expected a transformer"));
  }
  const DecoderNames names = NamesOf(*spec.decoder());
  if (!spec.decoder()->learned_positions ||
      adaptation.Freezes(names.token_table) == adaptation.Freezes(names.position_table)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--freeze freezes one of ", names.token_table, " and ", names.position_table,
                   ", which are frozen together or not at all; name both"));
}

absl::Status CheckTrained(const Adaptation& adaptation, const std::vector<LayerDecl>& layers) {
  std::vector<std::string> names;     // but those of what is tied, which has another one
  std::vector<std::string> adapters;  // those of their matrices
  std::vector<const ParameterDecl*> tied;
  bool trained = false;
  for (const LayerDecl& layer : layers) {
    for (const ParameterDecl& parameter : layer.parameters) {
      trained = trained || !parameter.frozen;
      if (!parameter.tied_to.empty()) {
        tied.push_back(&parameter);
      } else {
        (IsAdapter(parameter.name) ? adapters : names).push_back(parameter.name);
      }
    }
  }
  for (const std::string& pattern : adaptation.freeze) {
    if (NamesOne(pattern, names)) continue;
    if (NamesOne(pattern, adapters)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--freeze ", pattern,
                       " has no effect: it names matrices of adapters alone, which are always "
                       "trained; leave it out"));
    }
    for (const ParameterDecl* parameter : tied) {
      if (!MatchesPattern(pattern, parameter->name)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--freeze ", pattern, " has no effect: ", parameter->name,
          " is tied, and trained or frozen with ", parameter->tied_to, "; name that instead"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("--freeze ", pattern,
                     " names no parameter of the model; expected a pattern of names such "
                     "as ",
                     names.front(), " and ", names.back()));
  }
  const std::vector<std::string> targets =
      adaptation.lora.has_value() ? adaptation.lora->targets : std::vector<std::string>{};
  for (const std::string& target : targets) {
    if (HasAdapter({.targets = {target}}, names, adapters)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--lora targets=", target, ": no linear map of the model's blocks is called so; there are ",
        absl::StrJoin(MapNames(layers), ", ")));
  }
  if (trained || names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "every parameter of the model is frozen: nothing is left to train; give --freeze fewer "
      "patterns");
}

// Names do not depend on the batch, nor on the device.
absl::Status CheckTrained(const Adaptation& adaptation, const ModelSpec& spec, DType dtype) {
  if (adaptation == Adaptation()) return absl::OkStatus();
  std::vector<LayerDecl> layers;
  for (int index = 0; index < spec.layer_count(); ++index) {
    const absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, index, BatchShape(), dtype, PortableCpuKernels(), adaptation);
    if (!layer.ok()) return layer.status();
    layers.push_back((*layer)->decl());
  }
  return CheckTrained(adaptation, layers);
}

}  // namespace sluice
