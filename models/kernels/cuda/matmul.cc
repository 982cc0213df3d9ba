#include "models/kernels/cuda/matmul.h"

#include <memory>

#include "absl/strings/str_format.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/matmul_plan.h"

namespace sluice::cuda {

Matmul::Matmul(const MatmulShape& shape) : shape_(shape) {}
Matmul::~Matmul() = default;

absl::Status Matmul::Prepare() {
  if (plan_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<MatmulPlan>> plan = MatmulPlan::Make(shape_);
  if (!plan.ok()) return plan.status();
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

absl::StatusOr<bool> Matmul::Available() {
  if (absl::Status status = Prepare(); !status.ok()) return status;
  return plan_->algorithm.has_value();
}

absl::Status Matmul::Run(Stream stream, const MatmulTensors& tensors, void* workspace) {
  if (absl::Status status = Prepare(); !status.ok()) return status;
  if (!plan_->algorithm.has_value()) {
    return absl::UnimplementedError(absl::StrFormat(
        "cuBLASLt (%s) has no algorithm for a product [%d, %d] x [%d, %d] of %s into %s",
        plan_->library->path, shape_.m, shape_.k, shape_.k, shape_.n, DTypeName(shape_.in),
        DTypeName(shape_.out)));
  }
  if (absl::Status status = plan_->SetPointers(tensors); !status.ok()) return status;
  const float alpha = 1, beta = shape_.adds ? 1 : 0;
  size_t space = kMatmulWorkspace;
  void* const scratch = std::align(kScratchAlignment, kMatmulScratch, workspace, space);
  const void* const added = shape_.adds ? tensors.c : tensors.d;
  return plan_->library->ToStatus(
      plan_->library->matmul(plan_->handle, plan_->description.get(), &alpha, tensors.b,
                             plan_->first.get(), tensors.a, plan_->second.get(), &beta, added,
                             plan_->result.get(), tensors.d, plan_->result.get(),
                             &*plan_->algorithm, scratch, kMatmulScratch, Queue(stream)),
      "a product");
}

}  // namespace sluice::cuda
