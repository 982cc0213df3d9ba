#ifndef SLUICE_PARTITIONER_COSTS_DECODER_COST_H_
#define SLUICE_PARTITIONER_COSTS_DECODER_COST_H_

#include <vector>

#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/decoder_parts.h"
#include "models/spec/decoder.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/costs/parallel.h"

namespace sluice {

// How a decoder is trained, beside its widths.
struct DecoderTraining {
  BatchShape batch;  // a micro-batch
  DType dtype = DType::kBFloat16;
  // fp32 values that the optimizer keeps per parameter: AdamW 2, SGD with momentum 1.
  int state_copies = 2;
  MasterWeights master_weights = MasterWeights::kWhole;  // where the dtype is narrower than fp32
  // `tensor` and `sequence` are taken from the Parallel.
  DecoderKernels kernels;
  TrainedParts trained;                 // usual: everything
  DType base_dtype = DType::kBFloat16;  // what the rest is held in
  // Replicas sum gradients layer by layer while the last micro-batch's backward runs, so that only
  // what outlasts the layer's own backward counts; else after it.
  bool overlap_sync = false;
};

// What one rank pays for each layer of a decoder that sluice plans for without training it.
//
// Bytes: of one rank's part, as DescribeDecoder counts them. Held for each parameter: the fp32
// master weight and gradient, `state_copies` fp32 values and, with a narrower dtype, the weight in
// that type (Rajbhandari et al., ZeRO, 2020, section 3.1: 16 bytes, here 18, since gradients add up
// in fp32); with split master weights the weight in that type is half of the master weight. ZeRO 1
// divides the optimizer's and, where there is a copy to compute with, the master weights (of split
// ones what the weight lacks) by the replicas, ZeRO 2 the gradients, too. A tied head holds,
// updates and sums over the replicas all this of a table of its own unless its rank has the
// embedding, whose gradient it then adds to; where two ranks have one of the two each, they sum
// both gradients, whole ones also with ZeRO, and the messages hide the adding. What is frozen is
// held in `base_dtype`, without gradient and state. A message between stages is a slice for each
// tensor-parallel rank (Narayanan et al. 2021, section 4.1).
//
// Seconds of one micro-batch:
//   F        its products, what it keeps written and read once, its tensor-parallel sums, and those
//            of adapters (models/spec/costs/layer_builder.h)
//   I        the same the other way (attention's products twice, with flash attention 2.5 times:
//            Dao, FlashAttention-2, 2023, section 3.1.2)
//   W        a product a trained weight matrix, what is kept read once, the fp32 gradients read and
//            written; of what is kept the share that trained maps read; nothing where all is frozen
//   restore  attention's products, what it rebuilds written and read once
// and in each DeviceSpec::kernel_overhead a kernel. Once a step: update_seconds moves every byte
// that the optimizer reads or writes; sync_seconds is an all-reduce of the fp32 gradients over the
// replicas, with ZeRO a reduce-scatter of these and an all-gather of the weights; and one over the
// tensor-parallel ranks of the gradients of adapters that each has of a slice of the tokens.
//
// `kind` says which of the cluster's devices; ranks are ordered as Parallel says. Requires a valid
// Parallel.
std::vector<LayerCost> DecoderCosts(const DecoderConfig& config, const DecoderTraining& training,
                                    const Parallel& parallel, const ClusterSpec& cluster,
                                    int kind = 0);

// The same without tensor or data parallelism, with flash attention and without dropout.
std::vector<LayerCost> DecoderCosts(const DecoderConfig& config, const BatchShape& batch,
                                    DType dtype, int state_copies, const DeviceSpec& device);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_DECODER_COST_H_
