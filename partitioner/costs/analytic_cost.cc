#include "partitioner/costs/analytic_cost.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace sluice {
namespace {

constexpr double kMasterBytes = SizeOf(DType::kFloat32);

}  // namespace

void SetAnalyticSeconds(const std::vector<LayerSpec>& specs, const BatchShape& batch, DType dtype,
                        const DeviceSpec& device, std::vector<LayerCost>* costs) {
  assert(specs.size() == costs->size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const LayerSpec& spec = specs[i];
    LayerCost& cost = (*costs)[i];
    // Elements of the weights that products read; an embedding looks up a row of each of its two
    // tables a token.
    const bool lookup = spec.forward_flops == 0;
    const double per_weight = 2 * static_cast<double>(batch.rows());
    const double matrix = spec.product_flops / per_weight;
    const double trained = (spec.weight_grad_flops - spec.repeated_flops) / per_weight;
    const double rows = static_cast<double>(2 * spec.output_elements);
    const double weights =
        lookup ? rows * kMasterBytes : matrix * static_cast<double>(SizeOf(dtype));
    const double gradients = 2 * kMasterBytes * (lookup ? rows : trained);
    const double saved = static_cast<double>(cost.saved_bytes[0] + cost.output_bytes);
    const double restored = static_cast<double>(cost.rebuilt_bytes(Recompute::kSelective));
    const double side = std::sqrt(std::max(1.0, matrix));
    const auto per_flop =
        device.ProductSeconds(dtype, static_cast<double>(batch.rows()), side, side) /
        (2 * static_cast<double>(batch.rows()) * side * side);
    const auto seconds = [&](double flops, double bytes) {
      return flops * per_flop + device.MemorySeconds(bytes);
    };
    cost.forward_seconds = seconds(spec.forward_flops, weights + 2 * saved);
    cost.input_grad_seconds =
        spec.input_grad_flops == 0 ? 0 : seconds(spec.input_grad_flops, weights + 2 * saved);
    // Where all is frozen, W is no call at all.
    cost.weight_grad_seconds =
        cost.parameters == 0 ? 0 : seconds(spec.weight_grad_flops, saved + gradients);
    // Both gradients are read, one is written.
    cost.tied_sum_seconds = device.MemorySeconds(3 * static_cast<double>(cost.tied_gradient_bytes));
    cost.restore_seconds = restored == 0 ? 0 : seconds(spec.attention_flops, 2 * restored);
  }
}

}  // namespace sluice
