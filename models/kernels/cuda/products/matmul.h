#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "models/kernels/cuda/products/matmul_shape.h"

namespace sluice::cuda {

struct MatmulPlan;  // matmul_plan.h

// One product over cuBLASLt. The first use on a device fixes its algorithm, for all products of
// that shape in the process (algorithm_choice.h).
class Matmul {
 public:
  explicit Matmul(const MatmulShape& shape);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Whether the library has an algorithm for it on the current device; any other failure is an
  // error. Only the first call is expensive.
  absl::StatusOr<bool> Available();
  absl::Status Run(Stream stream, const MatmulTensors& tensors, void* workspace);

  // Makes the library load the product's kernel, unless a product of this shape has been rehearsed
  // on the current device: runs it on separate memory, and waits for its end. Otherwise the kernel
  // may be loaded when it is first launched, which may wait for all running kernels; a receive
  // among them would wait for a message that this rank has not queued yet (CUDA Programming Guide,
  // "Lazy Loading", potential hazards). This is only a precaution: errors are left to Run.
  void Rehearse(Stream stream);

 private:
  absl::Status Prepare();
  void RunOn(Stream stream, void* workspace, void* tensor, const void* added);

  const MatmulShape shape_;
  std::unique_ptr<MatmulPlan> plan_;  // null until the first use
};

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_MATMUL_H_
