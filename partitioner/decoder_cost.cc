#include "partitioner/decoder_cost.h"

#include "partitioner/analytic_cost.h"

namespace sluice {
namespace {

int64_t BytesPerParameter(DType dtype, int state_copies) {
  const int64_t fp32 = SizeOf(DType::kFloat32);
  const int64_t compute_copy = dtype == DType::kFloat32 ? 0 : SizeOf(dtype);
  return fp32 * (2 + state_copies) + compute_copy;
}

}  // namespace

std::vector<LayerCost> DecoderCosts(const DecoderConfig& config, const BatchShape& batch,
                                    DType dtype, int state_copies, const DeviceSpec& device) {
  std::vector<LayerSpec> specs;
  std::vector<LayerCost> costs;
  int64_t input = 0;
  for (const DecoderLayer& layer : DescribeDecoder(config, batch, dtype)) {
    LayerCost cost;
    cost.name = layer.spec.name;
    cost.parameters = layer.spec.parameters;
    cost.parameter_bytes = layer.spec.parameters * BytesPerParameter(dtype, state_copies);
    cost.saved_bytes = {layer.saved_bytes(), layer.saved_bytes() - layer.rebuilt_bytes(), input};
    cost.weight_grad_bytes = layer.weight_grad_bytes;
    cost.output_bytes = layer.spec.output_elements * SizeOf(dtype);
    cost.workspace_bytes = layer.workspace_bytes;
    input = cost.output_bytes;
    costs.push_back(std::move(cost));
    specs.push_back(layer.spec);
  }
  SetAnalyticSeconds(specs, batch, dtype, device, &costs);
  return costs;
}

}  // namespace sluice
