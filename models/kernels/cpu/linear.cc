#include <algorithm>
#include <new>
#include <type_traits>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/linear_bytes.h"
#include "models/kernels/cpu/matmul.h"
#include "models/kernels/cpu/portable_linear.h"
#include "models/kernels/cpu/threads.h"
#include "models/kernels/cpu/widen.h"

namespace sluice::cpu {
namespace {

constexpr size_t kAlignment = 64;
size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The size that follows from the shape, or the size that oneDNN asks for where that is larger: with
// several threads, or on a processor for which it divides products differently.
size_t AtLeast(size_t foretold, size_t asked) { return std::max(foretold, Aligned(asked)); }

// fp32 uses the weights as they are stored (oneDNN is as fast on them as on its own layout); bf16
// keeps two packed copies of them, one for each product that uses them: [forward | input gradient];
// of narrow ones a plain copy. Weights that are bf16 themselves are used as they are stored, which
// takes 3 to 4 % longer where a product has hundreds of rows, and a quarter of the memory.
class CpuLinear : public Linear {
 public:
  explicit CpuLinear(const LinearShape& shape)
      : shape_(shape),
        forward_(ForwardShape(shape, false)),
        forward_residual_(ForwardShape(shape, true), IsPacked(shape) ? &forward_ : nullptr),
        input_grad_(InputGradShape(shape)),
        weight_grad_(WeightGradShape(shape, false)),
        weight_grad_accumulate_(WeightGradShape(shape, true)),
        bytes_(Bytes()) {}

  size_t packed_bytes() const override { return bytes_.packed(); }
  size_t forward_workspace() const override { return bytes_.forward_work; }
  size_t input_grad_workspace() const override { return bytes_.input_grad_work; }
  size_t weight_grad_workspace() const override { return bytes_.weight_grad_work; }

  void Pack(Stream, const void* weight, const float* /*bias*/, void* packed) override {
    if (HasPlainCopy(shape_)) {
      Narrow(shape_.dtype, static_cast<const float*>(weight), nullptr, nullptr,
             {.rows = shape_.in, .columns = shape_.out, .stride = shape_.out, .data = packed});
      return;
    }
    if (!IsPacked(shape_)) return;
    forward_.Pack(static_cast<const float*>(weight), packed);
    input_grad_.Pack(static_cast<const float*>(weight), InputGradCopy(packed));
  }

  void Forward(Stream stream, const void* x, const void* weight, const void* packed,
               const float* bias, const void* residual, void* y, void* activated,
               void* workspace) override {
    const void* w = IsCopied(shape_) ? packed : weight;
    Matmul& product = residual == nullptr ? forward_ : forward_residual_;
    product.Run(x, w, bias, residual, y, workspace);
    if (activated == nullptr) return;
    ActivationForward(stream, shape_.dtype, shape_.activation, shape_.rows * shape_.out, y,
                      activated);
  }

  void BackwardInput(Stream stream, const void* dy, const void* weight, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    const void* w = IsPacked(shape_) ? InputGradCopy(packed) : IsCopied(shape_) ? packed : weight;
    input_grad_.Run(dy, w, dx, workspace);
    if (shape_.input_activation == Activation::kNone) return;
    ActivationBackward(stream, shape_.dtype, shape_.input_activation, shape_.rows * shape_.in,
                       input_before_activation, dx, dx);
  }

  void BackwardWeight(Stream, const void* x, const void* dy, float* dw, bool accumulate,
                      void* workspace) override {
    Matmul& product = accumulate ? weight_grad_accumulate_ : weight_grad_;
    const bool transposed = shape_.weight_transposed;
    product.Run(transposed ? dy : x, transposed ? x : dy, nullptr, nullptr, dw, workspace);
  }

 private:
  static bool IsCopied(const LinearShape& s) { return s.dtype != s.weight_dtype; }
  static bool IsPacked(const LinearShape& s) { return IsCopied(s) && !HasPlainCopy(s); }

  static MatmulShape ForwardShape(const LinearShape& s, bool residual) {
    return {.m = s.rows,
            .k = s.in,
            .n = s.out,
            .a_dtype = s.dtype,
            .b_dtype = s.dtype,
            .c_dtype = s.dtype,
            .b_transposed = s.weight_transposed,
            .b_packed = IsPacked(s),
            .bias = s.bias,
            .residual = residual};
  }

  static MatmulShape InputGradShape(const LinearShape& s) {
    return {.m = s.rows,
            .k = s.out,
            .n = s.in,
            .a_dtype = s.dtype,
            .b_dtype = s.dtype,
            .c_dtype = s.dtype,
            .b_transposed = !s.weight_transposed,
            .b_packed = IsPacked(s),
            .accumulate = s.add_input_grad};
  }

  static MatmulShape WeightGradShape(const LinearShape& s, bool accumulate) {
    return {.m = s.weight_transposed ? s.out : s.in,
            .k = s.rows,
            .n = s.weight_transposed ? s.in : s.out,
            .a_dtype = s.dtype,
            .b_dtype = s.dtype,
            .c_dtype = DType::kFloat32,
            .a_transposed = true,
            .accumulate = accumulate};
  }

  LinearBytes Bytes() const {
    const LinearBytes foretold = BytesOf(shape_, ThreadsNow());
    const auto most = [](const Matmul& a, const Matmul& b) {
      return std::max(a.scratchpad_bytes(), b.scratchpad_bytes());
    };
    return {.forward_copy = AtLeast(foretold.forward_copy, forward_.packed_bytes()),
            .input_grad_copy = AtLeast(foretold.input_grad_copy, input_grad_.packed_bytes()),
            .forward_work = AtLeast(foretold.forward_work, most(forward_, forward_residual_)),
            .input_grad_work = AtLeast(foretold.input_grad_work, input_grad_.scratchpad_bytes()),
            .weight_grad_work =
                AtLeast(foretold.weight_grad_work, most(weight_grad_, weight_grad_accumulate_))};
  }

  template <class Void>
  Void* InputGradCopy(Void* packed) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    return static_cast<Byte*>(packed) + bytes_.forward_copy;
  }

  const LinearShape shape_;
  Matmul forward_, forward_residual_;
  SummedMatmul input_grad_;
  Matmul weight_grad_, weight_grad_accumulate_;
  const LinearBytes bytes_;
};

}  // namespace

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape) {
  if (shape.dtype == DType::kBFloat16 && !MultipliesBFloat16()) return MakePortableLinear(shape);
  try {
    return std::make_unique<CpuLinear>(shape);
  } catch (const dnnl::error& error) {
    // Other products have other bits, so a rank may not take them because its memory is short.
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    return MakePortableLinear(shape);
  }
}

}  // namespace sluice::cpu
