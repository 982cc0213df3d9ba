#ifndef SLUICE_MODELS_KERNELS_CUDA_MATMUL_H_
#define SLUICE_MODELS_KERNELS_CUDA_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/device/device.h"
#include "models/spec/dtype.h"

namespace sluice::cuda {

// What is done to a product on its way out. `aux` is the value before an activation.
enum class Epilogue : uint8_t {
  kNone,
  kBias,  // + bias[n]
  kDGelu  // times GELU'(aux)
};

// d[m, n] = a[m, k] * b[k, n] (+ c[m, n]), all row-major, adding in fp32.
struct MatmulShape {
  int64_t m = 0, k = 0, n = 0;
  DType in = DType::kFloat32;   // of a and b
  DType out = DType::kFloat32;  // of c, d, bias and aux
  bool a_transposed = false;    // a is stored [k, m]
  bool b_transposed = false;    // b is stored [n, k]
  bool adds = false;            // c is added; it may be d
  Epilogue epilogue = Epilogue::kNone;

  friend auto operator<=>(const MatmulShape&,
                          const MatmulShape&) = default;  // NOLINT(modernize-use-nullptr)
};

struct MatmulTensors {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;
  void* aux = nullptr;
};

// What every algorithm may use of a work area, whatever the product's shape: so that memory can be
// foretold where there is no GPU to ask. NVIDIA recommends as much for Hopper.
inline constexpr size_t kMatmulScratch = size_t{32} << 20;
// The work area itself: algorithms want it at a multiple of 256 bytes, the caller gives one of 64.
inline constexpr size_t kScratchAlignment = 256;
inline constexpr size_t kMatmulWorkspace = kMatmulScratch + kScratchAlignment - 64;

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
