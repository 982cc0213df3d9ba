#ifndef SLUICE_PARTITIONER_PLANNING_SOURCES_SOURCE_H_
#define SLUICE_PARTITIONER_PLANNING_SOURCES_SOURCE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/portable_kernels.h"
#include "models/spec/adaptation.h"
#include "models/spec/cuda_attention.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "partitioner/machines.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/question/setting.h"

namespace sluice {

// What the layers of a question's model cost, and where that comes from.
struct PlanSource {
  std::string model;
  std::optional<ModelSpec> spec;  // absent for models that sluice does not train
  DType dtype = DType::kFloat32;
  Adaptation adaptation;
  CudaAttention attention = CudaAttention::kSluice;  // of a GPU
  BatchShape batch;  // the micro-batch that was asked for, or the usual one
  int layers = 0;
  std::string device;         // "h200"
  std::string costs;          // where the seconds come from, for people
  int most_tensor = 1;        // devices that could share a stage
  bool runs_here = false;     // whether `sluice train` could run what is planned: bytes are its own
  bool on_processor = false;  // likewise: on processors
  // Bytes per second that go through the memory of one rank; 0: unknown. Of processors alone.
  double memory_bandwidth = 0;
  // Those that need these bytes: this machine's where it was measured, else any processor's.
  const Kernels* kernels = &PortableCpuKernels();
  // The machines of any setting, with what layers cost on them: of one replica, and of one of the
  // devices that share a stage. Thread-safe. InvalidArgument for one that the source knows nothing
  // of: a profile is of one micro-batch size, and neither it nor a measured processor of shared
  // stages.
  std::function<absl::StatusOr<Machines>(const PlanSetting&)> price;
  // How many ranks of each kind of device, in the order of the cluster; empty where all are alike.
  std::vector<int> kinds;
  std::vector<std::string> kind_names;  // of these
};

// Prices the layers of `question`, which must outlive the source and must not be about a graph. A
// question about this processor measures it, for a second or so. InvalidArgument names the flag
// that asked for what cannot be.
absl::StatusOr<PlanSource> MakeSource(const PlanQuestion& question);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_SOURCES_SOURCE_H_
