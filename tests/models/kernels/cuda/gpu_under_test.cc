// CUDA's table, each of whose calls goes to a stream of its own and returns when the GPU is done.
#include <utility>

#include "models/kernels/cuda/launch_sizes.h"
#include "models/kernels/cuda_kernels.h"
#include "tests/models/kernels/cuda/gpu.h"
#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {
namespace {

template <auto kMember>
struct Finished;

template <class... Arguments, void (*Kernels::*kMember)(Stream, Arguments...)>
struct Finished<kMember> {
  static void Call(Stream, Arguments... arguments) {
    (CudaKernels().*kMember)(GpuStream(), std::forward<Arguments>(arguments)...);
    FinishOnGpu(GpuStream());
  }
};

class FinishedLinear : public Linear {
 public:
  explicit FinishedLinear(const LinearShape& shape) : linear_(CudaKernels().make_linear(shape)) {}
  size_t packed_bytes() const override { return linear_->packed_bytes(); }
  size_t forward_workspace() const override { return linear_->forward_workspace(); }
  size_t input_grad_workspace() const override { return linear_->input_grad_workspace(); }
  size_t weight_grad_workspace() const override { return linear_->weight_grad_workspace(); }

  void Pack(Stream, const void* weight, const float* bias, void* packed) override {
    linear_->Pack(GpuStream(), weight, bias, packed);
    FinishOnGpu(GpuStream());
  }
  void Forward(Stream, const void* x, const void* weight, const void* packed, const float* bias,
               const void* residual, void* y, void* activated, void* workspace) override {
    linear_->Forward(GpuStream(), x, weight, packed, bias, residual, y, activated, workspace);
    FinishOnGpu(GpuStream());
  }
  void BackwardInput(Stream, const void* dy, const void* weight, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    linear_->BackwardInput(GpuStream(), dy, weight, packed, input_before_activation, dx, workspace);
    FinishOnGpu(GpuStream());
  }
  void BackwardWeight(Stream, const void* x, const void* dy, float* dw, bool accumulate,
                      void* workspace) override {
    linear_->BackwardWeight(GpuStream(), x, dy, dw, accumulate, workspace);
    FinishOnGpu(GpuStream());
  }

 private:
  const std::unique_ptr<Linear> linear_;
};

std::unique_ptr<Linear> MakeFinishedLinear(const LinearShape& shape) {
  return std::make_unique<FinishedLinear>(shape);
}

Kernels MakeTable() {
  Kernels table = CudaKernels();
  table.make_linear = MakeFinishedLinear;
  table.attend_cached = Finished<&Kernels::attend_cached>::Call;
  table.embedding_forward = Finished<&Kernels::embedding_forward>::Call;
  table.embedding_backward = Finished<&Kernels::embedding_backward>::Call;
  table.layer_norm_forward = Finished<&Kernels::layer_norm_forward>::Call;
  table.layer_norm_backward = Finished<&Kernels::layer_norm_backward>::Call;
  table.rms_norm_forward = Finished<&Kernels::rms_norm_forward>::Call;
  table.rms_norm_backward = Finished<&Kernels::rms_norm_backward>::Call;
  table.activation_forward = Finished<&Kernels::activation_forward>::Call;
  table.activation_backward = Finished<&Kernels::activation_backward>::Call;
  table.gated_forward = Finished<&Kernels::gated_forward>::Call;
  table.gated_backward = Finished<&Kernels::gated_backward>::Call;
  table.rope_table = Finished<&Kernels::rope_table>::Call;
  table.rope = Finished<&Kernels::rope>::Call;
  table.rms_norm_rope_forward = Finished<&Kernels::rms_norm_rope_forward>::Call;
  table.rms_norm_rope_backward = Finished<&Kernels::rms_norm_rope_backward>::Call;
  table.cross_entropy = Finished<&Kernels::cross_entropy>::Call;
  table.soft_cap = Finished<&Kernels::soft_cap>::Call;
  table.dropout = Finished<&Kernels::dropout>::Call;
  table.scale = Finished<&Kernels::scale>::Call;
  table.column_sums = Finished<&Kernels::column_sums>::Call;
  table.accumulate = Finished<&Kernels::accumulate>::Call;
  table.block_squares = Finished<&Kernels::block_squares>::Call;
  table.add_in_groups = Finished<&Kernels::add_in_groups>::Call;
  table.all_finite = Finished<&Kernels::all_finite>::Call;
  table.hash = Finished<&Kernels::hash>::Call;
  table.adamw = Finished<&Kernels::adamw>::Call;
  table.sgd = Finished<&Kernels::sgd>::Call;
  table.copy = Finished<&Kernels::copy>::Call;
  return table;
}

}  // namespace

const Kernels& KernelsUnderTest() {
  static const Kernels table = MakeTable();
  return table;
}

int64_t RowWindow() { return cuda::kRowWindow; }

}  // namespace sluice
