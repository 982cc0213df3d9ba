#ifndef SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_GRAPH_H_
#define SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_GRAPH_H_

#include "models/kernels/cudnn/tensor_graph.h"
#include "models/kernels/kernels.h"

namespace sluice::cudnn {

// Causal attention of bf16 tensors as laid out in kernels.h, of shapes that CheckCudnnAttention
// takes, in the patterns that cuDNN's engines for attention know (NVIDIA, cuDNN developer guide,
// "Fused Flash Attention fprop" and "bprop").
struct AttentionForwardGraph {
  TensorGraph graph;
  int queries, keys, values, out, lse;  // positions of the tensors that the caller provides
};
AttentionForwardGraph MakeForwardGraph(const AttentionShape& shape);

// dQ is a separate product, from dS kept in the work area, not a sum to which blocks add in any
// order: so it has the same bits each time. `row_sums`, fp32 [batch, heads, seq] (sums of dout *
// out), is written and read.
struct AttentionBackwardGraph {
  TensorGraph graph;
  int queries, keys, values, out, lse, dout, row_sums, dqueries, dkeys, dvalues;
};
AttentionBackwardGraph MakeBackwardGraph(const AttentionShape& shape);

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_ATTENTION_GRAPH_H_
