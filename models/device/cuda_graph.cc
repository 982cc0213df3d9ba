#include "models/device/cuda_graph.h"

#include <utility>

namespace sluice {

CudaGraph::~CudaGraph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

cudaError_t CudaGraph::Run(cudaStream_t stream, absl::FunctionRef<void()> queue) {
  if (!std::exchange(was_queued_, true)) {
    queue();
    return cudaSuccess;
  }
  if (graph_ == nullptr) {
    if (const cudaError_t error = Capture(stream, queue); error != cudaSuccess) return error;
  }
  return cudaGraphLaunch(graph_, stream);
}

// Relaxed: calls of other threads in the meantime, for example NCCL's, are not captured and are
// allowed.
cudaError_t CudaGraph::Capture(cudaStream_t stream, absl::FunctionRef<void()> queue) {
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  if (error != cudaSuccess) return error;
  queue();
  cudaGraph_t captured = nullptr;
  error = cudaStreamEndCapture(stream, &captured);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&graph_, captured, 0);
  if (captured != nullptr) cudaGraphDestroy(captured);
  return error;
}

}  // namespace sluice
