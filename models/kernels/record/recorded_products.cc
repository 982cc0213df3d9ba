#include "models/kernels/record/recorded_products.h"

#include <memory>

#include "models/kernels/cuda/attention/attention_arguments.h"
#include "models/kernels/cuda/kernel_choice.h"
#include "models/kernels/cuda/work_sizes.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/cudnn/attention_workspace.h"
#include "models/kernels/record/launch_record.h"
#include "models/kernels/record/shared_launches.h"

namespace sluice::record {
namespace {

// As models/kernels/cuda/products/linear.cc.
class RecordedLinear : public Linear {
 public:
  explicit RecordedLinear(const LinearShape& shape) : shape_(shape) {}

  size_t packed_bytes() const override { return cuda::PackedBytes(shape_); }
  size_t forward_workspace() const override { return cuda::kMatmulWorkspace; }
  size_t input_grad_workspace() const override { return cuda::kMatmulWorkspace; }
  size_t weight_grad_workspace() const override { return cuda::kMatmulWorkspace; }

  void Pack(Stream, const void*, const float*, void*) override {
    if (cuda::CopiesWeight(shape_)) RoundToBFloat16(padded_weights());
    if (cuda::RoundsBias(shape_)) RoundToBFloat16(shape_.out);
  }

  void Forward(Stream, const void*, const void*, const void*, const float*, const void* residual,
               void*, void* activated, void*) override {
    const int64_t result = shape_.rows * shape_.out_width() * (residual == nullptr ? 1 : 2);
    Product(KernelKind::kProductForward, padded_weights(),
            operand(shape_.rows * shape_.in) + operand(padded_weights()) + operand(result) +
                (shape_.bias ? operand(shape_.out) : 0));
    if (activated == nullptr) return;
    ActivationForward(shape_.dtype, shape_.activation, shape_.rows * shape_.out);
  }

  void BackwardInput(Stream, const void*, const void*, const void*, const void*, void*,
                     void*) override {
    const int64_t n = shape_.rows * shape_.in;
    const int64_t bytes = operand(shape_.rows * shape_.out_width()) + operand(padded_weights()) +
                          operand(n) * (shape_.add_input_grad ? 2 : 1);
    if (cuda::FusesGelu(shape_)) {
      return Product(KernelKind::kProductInputGradGelu, padded_weights(), bytes + operand(n));
    }
    Product(KernelKind::kProductInputGrad, padded_weights(), bytes);
    if (shape_.input_activation == Activation::kNone) return;
    ActivationBackward(shape_.dtype, shape_.input_activation, n, /*in_place=*/true);
  }

  void BackwardWeight(Stream, const void*, const void*, float*, bool accumulate, void*) override {
    const int64_t first = cuda::AlignedOutputs(shape_);
    WeightGrad(first, accumulate);
    if (first < shape_.out) WeightGrad(shape_.out - first, accumulate);
  }

 private:
  int64_t weights() const { return shape_.in * shape_.out; }
  int64_t padded_weights() const { return shape_.in * shape_.out_width(); }
  int64_t operand(int64_t n) const { return n * SizeOf(shape_.dtype); }

  void WeightGrad(int64_t outputs, bool accumulate) const {
    const int64_t weights = shape_.in * outputs;
    Product(KernelKind::kProductWeightGrad, weights,
            operand(shape_.rows * (shape_.in + outputs)) + weights * kFloat * (accumulate ? 2 : 1));
  }

  void Product(KernelKind kind, int64_t weights, int64_t bytes) const {
    LaunchRecord::Add({.kind = kind,
                       .flops = 2 * static_cast<double>(shape_.rows) * static_cast<double>(weights),
                       .arithmetic = shape_.dtype,
                       .bytes = static_cast<double>(bytes)});
  }

  const LinearShape shape_;
};

class AttentionRecord : public Attention {
 public:
  explicit AttentionRecord(const AttentionShape& shape) : shape_(shape) {}

 protected:
  const AttentionShape& shape() const { return shape_; }
  // Bytes of q, or out, and of k, or v.
  int64_t queries() const { return bytes_of(shape_.heads); }
  int64_t keys() const { return bytes_of(shape_.kv_heads); }
  int64_t bytes_of(int64_t heads) const {
    return shape_.batch * shape_.seq * heads * shape_.width * SizeOf(shape_.dtype);
  }
  int64_t row_values() const { return shape_.batch * shape_.heads * shape_.seq; }

  // Scores that the mask leaves of one head of one sequence, half of the diagonal's: as the FLOPs of
  // a model are counted (models/spec/layer_spec.h).
  double Scores() const {
    const auto seq = static_cast<double>(shape_.seq);
    if (shape_.window == 0 || shape_.window >= shape_.seq) return seq * seq / 2;
    const auto window = static_cast<double>(shape_.window);
    return window * window / 2 + (seq - window) * window;
  }

  void Attend(KernelKind kind, bool plain, int products, int64_t bytes) const {
    LaunchRecord::Add({.kind = kind,
                       .flops = products * 2 * Scores() * static_cast<double>(shape_.width) *
                                static_cast<double>(shape_.batch * shape_.heads),
                       .arithmetic = plain ? DType::kFloat32 : DType::kBFloat16,
                       .bytes = static_cast<double>(bytes),
                       .seq = shape_.seq,
                       .width = shape_.width});
  }

 private:
  const AttentionShape shape_;
};

// As models/kernels/cuda/attention/attention.cc.
class RecordedAttention : public AttentionRecord {
 public:
  using AttentionRecord::AttentionRecord;

  size_t forward_workspace() const override { return 0; }
  size_t backward_workspace() const override { return cuda::AttentionBackwardWorkspace(shape()); }

  void Forward(Stream, const AttentionInput&, void*, float*, void*) override {
    const bool plain = !cuda::FitsTiles(shape());
    Attend(plain ? KernelKind::kPlainAttentionForward : KernelKind::kAttentionForward, plain, 2,
           queries() * 2 + keys() * 2 + row_values() * kFloat);
  }

  // The scores are computed by both kernels: dK and dV take four products, dQ three.
  void Backward(Stream, const AttentionInput&, const void*, const float*, const void*, void*, void*,
                void*, void*) override {
    const bool plain = !cuda::FitsTiles(shape());
    constexpr auto kStatistics = static_cast<int64_t>(sizeof(cuda::attention::RowStatistics));
    const int64_t statistics = row_values() * kStatistics;
    Moves(plain ? KernelKind::kPlainAttentionStatistics : KernelKind::kAttentionStatistics,
          queries() * 2 + row_values() * kFloat + statistics);
    // The columns of wide heads have two blocks, each of which computes the scores.
    const int halves = !plain && shape().width > 128 ? 2 : 1;
    Attend(plain ? KernelKind::kPlainAttentionKeyGrad : KernelKind::kAttentionKeyGrad, plain,
           2 * halves + 2, queries() * 2 + keys() * 4 + statistics);
    Attend(plain ? KernelKind::kPlainAttentionQueryGrad : KernelKind::kAttentionQueryGrad, plain, 3,
           queries() * 3 + keys() * 2 + statistics);
  }
};

// As models/kernels/cudnn/attention.cc: of what cuDNN runs, the products and the tensors; how many
// kernels there are is its own. dS is kept between dK and dQ, 2 bytes a score, and of grouped queries
// dK and dV of each query head until they are added.
class CudnnRecord : public AttentionRecord {
 public:
  using AttentionRecord::AttentionRecord;

  size_t forward_workspace() const override { return cudnn::WorkspaceOf(shape()).forward; }
  size_t backward_workspace() const override { return cudnn::WorkspaceOf(shape()).backward; }

  void Forward(Stream, const AttentionInput&, void*, float*, void*) override {
    Attend(KernelKind::kCudnnForward, false, 2, queries() * 2 + keys() * 2 + row_values() * kFloat);
  }
  void Backward(Stream, const AttentionInput&, const void*, const float*, const void*, void*, void*,
                void*, void*) override {
    const auto scores = static_cast<int64_t>(Scores()) * shape().batch * shape().heads;
    const int64_t of_heads = shape().kv_heads == shape().heads ? 0 : queries() * 4;
    Attend(KernelKind::kCudnnBackward, false, 5,
           queries() * 4 + keys() * 4 + of_heads + row_values() * kFloat +
               2 * scores * SizeOf(shape().dtype));
  }
};

}  // namespace

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape) {
  return std::make_unique<RecordedLinear>(shape);
}

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  if (absl::Status fits = CheckCudaAttention(shape); !fits.ok()) return fits;
  return std::make_unique<RecordedAttention>(shape);
}

absl::StatusOr<std::unique_ptr<Attention>> MakeCudnnAttention(const AttentionShape& shape) {
  if (absl::Status fits = CheckCudnnAttention(shape); !fits.ok()) return fits;
  return std::make_unique<CudnnRecord>(shape);
}

}  // namespace sluice::record
