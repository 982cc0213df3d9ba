#include "models/kernels/cuda/products/matmul.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/products/algorithm_choice.h"
#include "models/kernels/cuda/products/matmul_plan.h"
#include "models/kernels/cuda/products/rehearse.h"

namespace sluice::cuda {
namespace {

// Whether a product of this shape is the first one to be rehearsed on the device.
bool IsFirst(cublasLtHandle_t device, const MatmulShape& shape) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::pair<cublasLtHandle_t, MatmulShape>>;
  const std::lock_guard lock(mutex);
  return seen->emplace(device, shape).second;
}

// Of the largest of a product's tensors.
int64_t LargestBytes(const MatmulShape& s) {
  return std::max(
      {s.a_elements() * SizeOf(s.in), s.k * s.n * SizeOf(s.in), s.m * s.n * SizeOf(s.out)});
}

}  // namespace

Matmul::Matmul(const MatmulShape& shape) : shape_(shape) {}
Matmul::~Matmul() = default;

absl::Status Matmul::Prepare() {
  if (plan_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<MatmulPlan>> plan = MatmulPlan::Make(shape_);
  if (!plan.ok()) return plan.status();
  const auto algorithm = ChooseAlgorithm(shape_, **plan);
  if (!algorithm.ok()) return algorithm.status();
  (*plan)->algorithm = *algorithm;
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

absl::StatusOr<bool> Matmul::Available() {
  if (absl::Status status = Prepare(); !status.ok()) return status;
  return plan_->algorithm.has_value();
}

absl::Status Matmul::Run(Stream stream, const MatmulTensors& tensors, void* workspace) {
  const cudaStream_t queue = Queue(stream);
  if (absl::Status status = Prepare(); !status.ok()) return status;
  if (!plan_->algorithm.has_value()) {
    return absl::UnimplementedError(absl::StrFormat(
        "cuBLASLt (%s) has no algorithm for a product [%d, %d] x [%d, %d] of %s into %s",
        plan_->library->path, shape_.m, shape_.k, shape_.k, shape_.n, DTypeName(shape_.in),
        DTypeName(shape_.out)));
  }
  size_t space = kMatmulWorkspace;
  void* const scratch = std::align(kScratchAlignment, kMatmulScratch, workspace, space);
  return plan_->Run(*plan_->algorithm, shape_.adds, tensors, scratch, queue);
}

void Matmul::Rehearse(Stream stream) {
  const cudaStream_t queue = Queue(stream);
  const absl::StatusOr<bool> available = Available();
  if (!available.ok() || !*available || !IsFirst(plan_->handle, shape_)) return;
  const size_t bytes = static_cast<size_t>(LargestBytes(shape_)) + kScratchAlignment;
  cuda::Rehearse(queue, kMatmulWorkspace, bytes, [&](std::byte* workspace, std::byte* tensor) {
    RunOn(stream, workspace, tensor, tensor);
    // One algorithm has two kernels: for what is added where it lies, and for what lies elsewhere.
    if (shape_.adds) RunOn(stream, workspace, tensor, tensor + kScratchAlignment);
  });
}

// All tensors share one memory: the result is not used.
void Matmul::RunOn(Stream stream, void* workspace, void* tensor, const void* added) {
  const MatmulTensors tensors = OnlyThoseOf(
      shape_, {.a = tensor, .b = tensor, .c = added, .d = tensor, .bias = tensor, .aux = tensor});
  Run(stream, tensors, workspace).IgnoreError();
}

}  // namespace sluice::cuda
