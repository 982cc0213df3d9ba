#ifndef SLUICE_MODELS_KERNELS_CUDA_MATMUL_H_
#define SLUICE_MODELS_KERNELS_CUDA_MATMUL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "models/kernels/cuda/matmul_shape.h"

namespace sluice::cuda {

struct MatmulPlan;  // matmul_plan.h

// One product over cuBLASLt. The first use on a device fixes its algorithm, for all products of
// that shape in the process; the library is only asked for algorithms that add in a fixed order.
class Matmul {
 public:
  explicit Matmul(const MatmulShape& shape);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Whether the library has an algorithm for it on the current device; what else goes wrong is an
  // error. Cheap but for the first call.
  absl::StatusOr<bool> Available();
  absl::Status Run(Stream stream, const MatmulTensors& tensors, void* workspace);

  // Has the library load the product's kernel, unless a product of this shape has been rehearsed on
  // the current device: runs it on memory of its own, to its end. Otherwise the kernel may be
  // loaded when it is first launched, which may wait for all kernels that run; a receive among them
  // would wait for what this rank is still to queue (CUDA Programming Guide, "Lazy Loading",
  // potential hazards). A precaution: what goes wrong is left for Run to say.
  void Rehearse(Stream stream);

 private:
  absl::Status Prepare();
  void RunOn(Stream stream, std::byte* memory);

  const MatmulShape shape_;
  std::unique_ptr<MatmulPlan> plan_;  // null until the first use
};

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_MATMUL_H_
