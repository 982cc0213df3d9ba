#ifndef SLUICE_PARTITIONER_COSTS_ANALYTIC_COST_H_
#define SLUICE_PARTITIONER_COSTS_ANALYTIC_COST_H_

#include <vector>

#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/layer_cost.h"

namespace sluice {

// Fills in the seconds of `costs`, whose bytes are known, from the layers' FLOPs and a device's
// rates:
//   seconds = FLOPs / rate + bytes moved / memory bandwidth
// for F, I, W and the restoring of what selective recomputation drops. The two are added, not
// overlapped: a layer's matrix products and its element-wise kernels run one after the other. Bytes
// moved:
//   F, I    the weights once, everything saved once written and once read
//   W       everything saved once read, the fp32 gradients once read and once written
//   restore what it rebuilds once written and once read
// and the FLOPs of restoring are those of F beyond the products with weights: attention's. The rate
// is that of one square product with as many weights as the layer; DecoderCosts knows each product.
// Requires one entry a layer in both; `batch` and `dtype` are what both were made for.
void SetAnalyticSeconds(const std::vector<LayerSpec>& specs, const BatchShape& batch, DType dtype,
                        const DeviceSpec& device, std::vector<LayerCost>* costs);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_ANALYTIC_COST_H_
