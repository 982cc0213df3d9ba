#include <cstdio>
#include <cstdlib>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/models/fake_device.h"

namespace sluice {
namespace {

const Kernels& Cpu() { return CpuKernels(); }

// An argument of a call that runs later: a list is the caller's, and may be gone by then.
template <typename T>
T Kept(const T& argument) {
  return argument;
}
template <typename T>
std::vector<T> Kept(absl::Span<const T> list) {
  return {list.begin(), list.end()};
}

// Has the stream call `function` with these arguments.
template <typename Function, typename... Arguments>
void Later(Stream stream, Function function, const Arguments&... arguments) {
  FakeDevice::Queue(stream, [function, kept = std::make_tuple(Kept(arguments)...)] {
    std::apply([&](const auto&... each) { function(Stream{}, each...); }, kept);
  });
}

// Entries of the table that only differ in when they run.
template <auto kMember>
struct Queued;
template <typename... Arguments, void (*Kernels::*kMember)(Stream, Arguments...)>
struct Queued<kMember> {
  static void Call(Stream stream, Arguments... arguments) {
    Later(stream, Cpu().*kMember, arguments...);
  }
};

// A GPU would compile or load kernels in the middle of a step.
[[noreturn]] void FailUnprepared(const char* what) {
  std::fprintf(stderr, "%s runs before it was prepared\n", what);
  std::abort();
}

class QueuedLinear : public Linear {
 public:
  explicit QueuedLinear(const LinearShape& shape) : linear_(Cpu().make_linear(shape)) {}
  size_t packed_bytes() const override { return linear_->packed_bytes(); }
  size_t forward_workspace() const override { return linear_->forward_workspace(); }
  size_t input_grad_workspace() const override { return linear_->input_grad_workspace(); }
  size_t weight_grad_workspace() const override { return linear_->weight_grad_workspace(); }
  void Pack(Stream stream, const void* weight, const float* bias, void* packed) override {
    prepared_ = true;
    FakeDevice::Queue(stream, [=, linear = linear_] { linear->Pack({}, weight, bias, packed); });
  }
  void Forward(Stream stream, const void* x, const void* weight, const void* packed,
               const float* bias, const void* residual, void* y, void* activated,
               void* workspace) override {
    if (!prepared_) FailUnprepared("a product");
    FakeDevice::Queue(stream, [=, linear = linear_] {
      linear->Forward({}, x, weight, packed, bias, residual, y, activated, workspace);
    });
  }
  void BackwardInput(Stream stream, const void* dy, const void* weight, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    if (!prepared_) FailUnprepared("a product");
    FakeDevice::Queue(stream, [=, linear = linear_] {
      linear->BackwardInput({}, dy, weight, packed, input_before_activation, dx, workspace);
    });
  }
  void BackwardWeight(Stream stream, const void* x, const void* dy, float* dw, bool accumulate,
                      void* workspace) override {
    if (!prepared_) FailUnprepared("a product");
    FakeDevice::Queue(stream, [=, linear = linear_] {
      linear->BackwardWeight({}, x, dy, dw, accumulate, workspace);
    });
  }

 private:
  const std::shared_ptr<Linear> linear_;  // work may outlive this
  bool prepared_ = false;
};

class QueuedAttention : public Attention {
 public:
  explicit QueuedAttention(const AttentionShape& shape)
      : attention_(*Cpu().make_attention(shape)) {}
  size_t forward_workspace() const override { return attention_->forward_workspace(); }
  size_t backward_workspace() const override { return attention_->backward_workspace(); }
  void Prepare(Stream) override { prepared_ = true; }
  void Forward(Stream stream, const AttentionInput& in, void* out, float* lse,
               void* workspace) override {
    if (!prepared_) FailUnprepared("attention");
    FakeDevice::Queue(
        stream, [=, attention = attention_] { attention->Forward({}, in, out, lse, workspace); });
  }
  void Backward(Stream stream, const AttentionInput& in, const void* out, const float* lse,
                const void* dout, void* dq, void* dk, void* dv, void* workspace) override {
    FakeDevice::Queue(stream, [=, attention = attention_] {
      attention->Backward({}, in, out, lse, dout, dq, dk, dv, workspace);
    });
  }

 private:
  const std::shared_ptr<Attention> attention_;
  bool prepared_ = false;
};

Kernels Table(MasterWeights master_weights) {
  Kernels kernels = Cpu();
  kernels.device = "fake";
  kernels.master_weights = master_weights;
  kernels.make_linear = [](const LinearShape& shape) -> std::unique_ptr<Linear> {
    return std::make_unique<QueuedLinear>(shape);
  };
  kernels.make_attention =
      [](const AttentionShape& shape) -> absl::StatusOr<std::unique_ptr<Attention>> {
    return std::make_unique<QueuedAttention>(shape);
  };
  kernels.attend_cached = Queued<&Kernels::attend_cached>::Call;
  kernels.embedding_forward = Queued<&Kernels::embedding_forward>::Call;
  kernels.embedding_backward = Queued<&Kernels::embedding_backward>::Call;
  kernels.layer_norm_forward = Queued<&Kernels::layer_norm_forward>::Call;
  kernels.layer_norm_backward = Queued<&Kernels::layer_norm_backward>::Call;
  kernels.rms_norm_forward = Queued<&Kernels::rms_norm_forward>::Call;
  kernels.rms_norm_backward = Queued<&Kernels::rms_norm_backward>::Call;
  kernels.activation_forward = Queued<&Kernels::activation_forward>::Call;
  kernels.activation_backward = Queued<&Kernels::activation_backward>::Call;
  kernels.gated_forward = Queued<&Kernels::gated_forward>::Call;
  kernels.gated_backward = Queued<&Kernels::gated_backward>::Call;
  kernels.rope_table = [](Stream stream, int64_t seq, int64_t pairs, const float* frequencies,
                          float magnitude, float* turns) {
    const std::vector<float> kept(frequencies, frequencies + pairs);
    FakeDevice::Queue(
        stream, [=] { Cpu().rope_table(Stream{}, seq, pairs, kept.data(), magnitude, turns); });
  };
  kernels.rope = Queued<&Kernels::rope>::Call;
  kernels.rms_norm_rope_forward = Queued<&Kernels::rms_norm_rope_forward>::Call;
  kernels.rms_norm_rope_backward = Queued<&Kernels::rms_norm_rope_backward>::Call;
  kernels.cross_entropy = Queued<&Kernels::cross_entropy>::Call;
  kernels.soft_cap = Queued<&Kernels::soft_cap>::Call;
  kernels.dropout = Queued<&Kernels::dropout>::Call;
  kernels.scale = Queued<&Kernels::scale>::Call;
  kernels.accumulate = Queued<&Kernels::accumulate>::Call;
  kernels.column_sums = Queued<&Kernels::column_sums>::Call;
  kernels.block_squares = Queued<&Kernels::block_squares>::Call;
  kernels.add_in_groups = Queued<&Kernels::add_in_groups>::Call;
  kernels.hash = Queued<&Kernels::hash>::Call;
  kernels.all_finite = Queued<&Kernels::all_finite>::Call;
  kernels.copy = Queued<&Kernels::copy>::Call;
  kernels.adamw = Queued<&Kernels::adamw>::Call;
  kernels.sgd = Queued<&Kernels::sgd>::Call;
  return kernels;
}

}  // namespace

const Kernels& FakeKernels(MasterWeights master_weights) {
  static const Kernels whole = Table(MasterWeights::kWhole);
  static const Kernels split = Table(MasterWeights::kSplit);
  return master_weights == MasterWeights::kSplit ? split : whole;
}

}  // namespace sluice
