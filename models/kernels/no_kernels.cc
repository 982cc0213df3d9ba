#include <cstdlib>
#include <memory>

#include "models/kernels/cpu/attention.h"
#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/linear_bytes.h"
#include "models/kernels/cpu/threads.h"
#include "models/kernels/kernel_threads.h"
#include "models/kernels/portable_kernels.h"

// The CPU's kernels for programs that plan and never compute: every size is that of a product of
// PortableCpuKernels(), and whatever would compute is absent. So a planner needs no kernel library.
namespace sluice {
namespace {

thread_local int threads_now = 1;

// What computes is not to be called.
class LinearSizes : public Linear {
 public:
  explicit LinearSizes(const LinearShape& shape) : bytes_(cpu::BytesOf(shape, threads_now)) {}

  size_t packed_bytes() const override { return bytes_.packed(); }
  size_t forward_workspace() const override { return bytes_.forward_work; }
  size_t input_grad_workspace() const override { return bytes_.input_grad_work; }
  size_t weight_grad_workspace() const override { return bytes_.weight_grad_work; }

  void Pack(Stream, const void*, const float*, void*) override { std::abort(); }
  void Forward(Stream, const void*, const void*, const void*, const float*, const void*, void*,
               void*, void*) override {
    std::abort();
  }
  void BackwardInput(Stream, const void*, const void*, const void*, const void*, void*,
                     void*) override {
    std::abort();
  }
  void BackwardWeight(Stream, const void*, const void*, float*, bool, void*) override {
    std::abort();
  }

 private:
  const cpu::LinearBytes bytes_;
};

// Likewise.
class AttentionSizes : public Attention {
 public:
  explicit AttentionSizes(const AttentionShape& shape)
      : group_(cpu::GroupOf(shape, cpu::BFloat16Products::kSingle)),
        threads_(cpu::AttentionThreads(shape, threads_now)) {}

  size_t forward_workspace() const override { return Bytes(group_.forward_floats()); }
  size_t backward_workspace() const override { return Bytes(group_.backward_floats()); }

  void Forward(Stream, const AttentionInput&, void*, float*, void*) override { std::abort(); }
  void Backward(Stream, const AttentionInput&, const void*, const float*, const void*, void*, void*,
                void*, void*) override {
    std::abort();
  }

 private:
  size_t Bytes(size_t floats) const {
    return static_cast<size_t>(threads_) * floats * sizeof(float);
  }

  const cpu::GroupShape group_;
  const int threads_;
};

std::unique_ptr<Linear> MakeLinearSizes(const LinearShape& shape) {
  return std::make_unique<LinearSizes>(shape);
}

absl::StatusOr<std::unique_ptr<Attention>> MakeAttentionSizes(const AttentionShape& shape) {
  return std::make_unique<AttentionSizes>(shape);
}

Kernels Sizes(const char* device, MasterWeights master_weights) {
  Kernels table = {};
  table.device = device;
  table.master_weights = master_weights;
  table.head_limits = kProcessorHead;
  table.make_linear = MakeLinearSizes;
  table.make_attention = MakeAttentionSizes;
  table.attend_cached_workspace = cpu::AttendCachedWorkspace;
  table.embedding_backward_workspace = cpu::NoWorkspace;
  table.layer_norm_backward_workspace = cpu::NoWorkspace;
  table.rms_norm_backward_workspace = cpu::NoWorkspace;
  table.cross_entropy_workspace = cpu::CrossEntropyWorkspace;
  table.column_sums_workspace = cpu::ColumnSumsWorkspace;
  return table;
}

}  // namespace

KernelThreads::KernelThreads(int threads) : before_(threads_now) { threads_now = threads; }
KernelThreads::~KernelThreads() { threads_now = before_; }

const Kernels& CpuKernels(MasterWeights master_weights) {
  return PortableCpuKernels(master_weights);
}

const Kernels& PortableCpuKernels(MasterWeights master_weights) {
  static const Kernels whole = Sizes("cpu", MasterWeights::kWhole);
  static const Kernels split = Sizes("cpu, split master weights", MasterWeights::kSplit);
  return master_weights == MasterWeights::kSplit ? split : whole;
}

}  // namespace sluice
