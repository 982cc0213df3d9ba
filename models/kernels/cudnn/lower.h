#ifndef SLUICE_MODELS_KERNELS_CUDNN_LOWER_H_
#define SLUICE_MODELS_KERNELS_CUDNN_LOWER_H_

#include "models/kernels/cudnn/descriptors.h"
#include "models/kernels/cudnn/tensor_graph.h"

namespace sluice::cudnn {

// The graph as cuDNN's operation graph, finished; with a handle where that is not null. A tensor's
// unique id is its position + 1. Errors are those of `make`.
cudnnBackendDescriptor_t Lower(const TensorGraph& graph, cudnnHandle_t handle, Descriptors* make);
inline int64_t UniqueId(int position) { return position + 1; }

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_LOWER_H_
