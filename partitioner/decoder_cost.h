#ifndef SLUICE_PARTITIONER_DECODER_COST_H_
#define SLUICE_PARTITIONER_DECODER_COST_H_

#include <vector>

#include "models/spec_decoder.h"
#include "partitioner/device.h"
#include "partitioner/layer_cost.h"

namespace sluice {

// Costs of a decoder that sluice plans for without training it: bytes as DescribeDecoder counts
// them with flash attention and no dropout, seconds by SetAnalyticSeconds. `state_copies` is how
// many fp32 values the optimizer keeps a parameter (AdamW 2, SGD with momentum 1); to these come
// the fp32 master weight and gradient and, with a narrower dtype, the weight in that type
// (Rajbhandari et al., ZeRO, 2020, section 3.1: 16 bytes a parameter, here 18, since gradients add
// up in fp32).
std::vector<LayerCost> DecoderCosts(const DecoderConfig& config, const BatchShape& batch,
                                    DType dtype, int state_copies, const DeviceSpec& device);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_DECODER_COST_H_
