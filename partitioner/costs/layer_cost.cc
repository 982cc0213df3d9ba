#include "partitioner/costs/layer_cost.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Of all layers together, so that no sum of sums overflows: 2^60.
constexpr double kMostBytes = 1152921504606846976.0;

absl::Status CheckSeconds(const LayerCost& layer, const char* field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("layer '", layer.name, "': ", field, " is ", value,
                                                 "; expected seconds, finite and not negative"));
}

absl::Status CheckCount(const LayerCost& layer, const char* field, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", layer.name, "': ", field, " is ", value, "; expected 0 or more"));
}

absl::Status ValidateLayer(const LayerCost& layer) {
  for (const auto& [field, value] :
       {std::pair{"forward_seconds", layer.forward_seconds},
        std::pair{"input_grad_seconds", layer.input_grad_seconds},
        std::pair{"weight_grad_seconds", layer.weight_grad_seconds},
        std::pair{"apart_input_grad_seconds", layer.apart_input_grad_seconds},
        std::pair{"apart_weight_grad_seconds", layer.apart_weight_grad_seconds},
        std::pair{"restore_seconds", layer.restore_seconds},
        std::pair{"update_seconds", layer.update_seconds},
        std::pair{"tied_update_seconds", layer.tied_update_seconds},
        std::pair{"tied_sum_seconds", layer.tied_sum_seconds},
        std::pair{"sync_seconds", layer.sync_seconds}}) {
    if (absl::Status status = CheckSeconds(layer, field, value); !status.ok()) return status;
  }
  for (const auto& [field, value] :
       {std::pair{"parameters", layer.parameters},
        std::pair{"split_parameters", layer.split_parameters},
        std::pair{"parameter_bytes", layer.parameter_bytes},
        std::pair{"tied_bytes", layer.tied_bytes},
        std::pair{"tied_state_bytes", layer.tied_state_bytes},
        std::pair{"tied_gradient_bytes", layer.tied_gradient_bytes},
        std::pair{"saved_bytes (none)", layer.saved_bytes[0]},
        std::pair{"saved_bytes (selective)", layer.saved_bytes[1]},
        std::pair{"saved_bytes (full)", layer.saved_bytes[2]},
        std::pair{"weight_grad_bytes", layer.weight_grad_bytes},
        std::pair{"output_bytes", layer.output_bytes},
        std::pair{"workspace_bytes", layer.workspace_bytes},
        std::pair{"forward_workspace_bytes", layer.forward_workspace_bytes}}) {
    if (absl::Status status = CheckCount(layer, field, value); !status.ok()) return status;
  }
  if (layer.forward_workspace_bytes > layer.workspace_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer '", layer.name, "': forward_workspace_bytes is ", layer.forward_workspace_bytes,
        "; expected at most its workspace_bytes, ", layer.workspace_bytes));
  }
  return absl::OkStatus();
}

// What is had once cannot be more than either layer has.
absl::Status CheckTies(const std::vector<LayerCost>& layers) {
  int64_t tied = 0;
  for (const LayerCost& layer : layers) {
    if (layer.tied_update_seconds > layer.update_seconds) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", layer.name, "': tied_update_seconds is ", layer.tied_update_seconds,
          "; expected no more than its update_seconds, ", layer.update_seconds));
    }
    if (&layer != &layers.back() && (layer.tied_gradient_bytes > 0 || layer.tied_sum_seconds > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", layer.name, "': tied_gradient_bytes is ", layer.tied_gradient_bytes,
          " and tied_sum_seconds ", layer.tied_sum_seconds,
          "; expected 0, since gradients of the last layer alone are summed with those of the "
          "first"));
    }
    tied += layer.tied_bytes;
    const bool first = &layer == &layers.front();
    if (layer.tied_state_bytes <= layer.tied_bytes && layer.tied_bytes <= layer.parameter_bytes &&
        tied <= (first ? 0 : layers.front().parameter_bytes)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "layer '", layer.name, "': tied_bytes is ", layer.tied_bytes, ", of which ",
        layer.tied_state_bytes, " of state; expected no more than its parameter_bytes, ",
        layer.parameter_bytes, ", and than those of the first layer, ",
        layers.front().parameter_bytes, ", which it is tied to"));
  }
  return absl::OkStatus();
}

double AllBytes(const LayerCost& layer) {
  double bytes = 0;
  for (const int64_t each :
       {layer.parameters, layer.parameter_bytes, layer.saved_bytes[0], layer.saved_bytes[1],
        layer.saved_bytes[2], layer.weight_grad_bytes, layer.output_bytes, layer.workspace_bytes}) {
    bytes += static_cast<double>(each);
  }
  return bytes;
}

}  // namespace

const char* RecomputeName(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "?";
}

bool ParseRecompute(absl::string_view text, Recompute* recompute) {
  for (Recompute known : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (text != absl::string_view(RecomputeName(known))) continue;
    *recompute = known;
    return true;
  }
  return false;
}

double LayerCost::recompute_seconds(Recompute recompute) const {
  if (recompute == Recompute::kNone) return 0;
  return recompute == Recompute::kSelective ? restore_seconds : forward_seconds;
}

int64_t LayerCost::rebuilt_bytes(Recompute recompute) const {
  const int64_t kept = saved_bytes[static_cast<int>(recompute)];
  return saved_bytes[0] > kept ? saved_bytes[0] - kept : 0;
}

MasterWeights MasterWeightsOf(const std::vector<LayerCost>& layers) {
  const bool split = std::any_of(layers.begin(), layers.end(),
                                 [](const LayerCost& layer) { return layer.split_parameters > 0; });
  return split ? MasterWeights::kSplit : MasterWeights::kWhole;
}

absl::Status ValidateLayerCosts(const std::vector<LayerCost>& layers) {
  if (layers.empty()) return absl::InvalidArgumentError("there are no layers to place");
  double bytes = 0;
  for (const LayerCost& layer : layers) {
    if (absl::Status status = ValidateLayer(layer); !status.ok()) return status;
    bytes += AllBytes(layer);
    if (bytes <= kMostBytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("the layers up to '", layer.name, "' need ",
                                                   bytes, " bytes; expected at most ", kMostBytes,
                                                   ": make micro-batches smaller"));
  }
  return CheckTies(layers);
}

}  // namespace sluice
