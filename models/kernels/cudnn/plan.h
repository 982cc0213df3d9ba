#ifndef SLUICE_MODELS_KERNELS_CUDNN_PLAN_H_
#define SLUICE_MODELS_KERNELS_CUDNN_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/kernels/cudnn/descriptors.h"
#include "models/kernels/cudnn/library.h"
#include "models/kernels/cudnn/tensor_graph.h"

namespace sluice::cudnn {

// The target of compilation: the GPU of a handle, or without a handle a GPU that is described in
// the format of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; plans for the latter cannot be executed.
struct Target {
  cudnnHandle_t handle = nullptr;
  std::string properties = {};
};

// The kernel of a graph, compiled when the plan is made: of the engines that cuDNN's heuristic
// names, the first that can run and gives the same bits each time. The same library, GPU and graph
// give the same plan.
class Plan {
 public:
  // Unimplemented: cuDNN has no such engine (the message has its reason for the last one).
  static absl::StatusOr<std::unique_ptr<Plan>> Make(const Library& library,
                                                    const TensorGraph& graph, const Target& target);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // cuDNN's number for the engine.
  int64_t engine() const { return engine_; }

  // Queued on the handle's stream; `tensors` names every tensor of the graph that is neither
  // virtual nor constant by its position.
  absl::Status Execute(cudnnHandle_t handle, absl::Span<const std::pair<int, void*>> tensors,
                       void* workspace) const;

 private:
  explicit Plan(const Library& library) : library_(library), made_(library) {}
  absl::Status Choose(cudnnBackendDescriptor_t graph, const Target& target);
  // Whether `config` can run; Unimplemented where it cannot.
  absl::Status Try(cudnnBackendDescriptor_t config, const Target& target);

  const Library& library_;
  Descriptors made_;
  std::vector<float> constants_;
  std::vector<int> constant_positions_;
  cudnnBackendDescriptor_t plan_ = nullptr;
  std::unique_ptr<Descriptors> chosen_;  // holds the plan, among others
  int64_t workspace_bytes_ = 0;
  int64_t engine_ = -1;
};

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_PLAN_H_
