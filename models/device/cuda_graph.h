#ifndef SLUICE_MODELS_DEVICE_CUDA_GRAPH_H_
#define SLUICE_MODELS_DEVICE_CUDA_GRAPH_H_

#include <cuda_runtime_api.h>

#include "absl/functional/function_ref.h"

namespace sluice {

// Work that is queued on a stream repeatedly. The first time it is queued as usual, so that
// everything it needs is chosen and loaded outside of a capture; the second time it is captured;
// after that one call queues all of it.
class CudaGraph {
 public:
  CudaGraph() = default;
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // `queue` must queue the same work each time, on `stream` and on no other.
  cudaError_t Run(cudaStream_t stream, absl::FunctionRef<void()> queue);

 private:
  cudaError_t Capture(cudaStream_t stream, absl::FunctionRef<void()> queue);

  bool was_queued_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_GRAPH_H_
