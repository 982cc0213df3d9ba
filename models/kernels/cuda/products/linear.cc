#include <cstddef>
#include <memory>
#include <utility>

#include "models/device/cuda_error.h"
#include "models/kernels/cuda/functions.h"
#include "models/kernels/cuda/kernel_choice.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/products/matmul.h"

namespace sluice::cuda {
namespace {

// bf16 multiplies with a rounded copy of fp32 weights, in the same layout, and adds a rounded copy
// of the bias, since cuBLASLt requires it in the result's type; packed: [weights | bias]. Where y is
// padded, forward and input gradient are products of the padded size. The gradient of W, which is
// not padded, is a product of a multiple of kAlignedOutputs, and a small one of the outputs behind.
class CudaLinear : public Linear {
 public:
  explicit CudaLinear(const LinearShape& shape)
      : shape_(shape),
        forward_(ForwardShape(shape, false)),
        forward_residual_(ForwardShape(shape, true)),
        input_grad_(InputGradShape(shape, Epilogue::kNone)),
        input_grad_gelu_(InputGradShape(shape, Epilogue::kDGelu)),
        weight_grad_(WeightGradShape(shape, AlignedOutputs(shape), false)),
        weight_grad_accumulate_(WeightGradShape(shape, AlignedOutputs(shape), true)),
        last_weight_grad_(WeightGradShape(shape, last_outputs(), false)),
        last_weight_grad_accumulate_(WeightGradShape(shape, last_outputs(), true)) {}

  size_t packed_bytes() const override { return PackedBytes(shape_); }
  size_t forward_workspace() const override { return kMatmulWorkspace; }
  size_t input_grad_workspace() const override { return kMatmulWorkspace; }
  size_t weight_grad_workspace() const override { return kMatmulWorkspace; }

  void Pack(Stream stream, const void* weight, const float* bias, void* packed) override {
    Rehearse(stream);
    if (CopiesWeight(shape_)) {
      ToBFloat16(stream, shape_.in * shape_.out_width(), static_cast<const float*>(weight), packed);
    }
    if (RoundsBias(shape_)) {
      ToBFloat16(stream, shape_.out, bias,
                 static_cast<std::byte*>(packed) + PackedWeightBytes(shape_));
    }
  }

  void Forward(Stream stream, const void* x, const void* weight, const void* packed,
               const float* bias, const void* residual, void* y, void* activated,
               void* workspace) override {
    MatmulTensors tensors = {.a = x, .b = Weights(weight, packed), .c = residual, .d = y};
    if (shape_.bias) tensors.bias = Bias(bias, packed);
    Matmul& product = residual == nullptr ? forward_ : forward_residual_;
    NoteCudaFailure(product.Run(stream, tensors, workspace));
    if (activated == nullptr) return;
    // Not fused: cuBLASLt would apply the activation before the value is rounded to y, and
    // selective recomputation, which later computes it from y, would get other bits.
    ActivationForward(stream, shape_.dtype, shape_.activation, shape_.rows * shape_.out, y,
                      activated);
  }

  void BackwardInput(Stream stream, const void* dy, const void* weight, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    MatmulTensors tensors = {.a = dy, .b = Weights(weight, packed), .c = dx, .d = dx};
    const Activation activation = shape_.input_activation;
    if (FusesGelu(shape_) && CanRun(input_grad_gelu_)) {
      tensors.aux = const_cast<void*>(input_before_activation);  // only read here
      NoteCudaFailure(input_grad_gelu_.Run(stream, tensors, workspace));
      return;
    }
    NoteCudaFailure(input_grad_.Run(stream, tensors, workspace));
    if (activation == Activation::kNone) return;
    ActivationBackward(stream, shape_.dtype, activation, shape_.rows * shape_.in,
                       input_before_activation, dx, dx);
  }

  void BackwardWeight(Stream stream, const void* x, const void* dy, float* dw, bool accumulate,
                      void* workspace) override {
    Matmul& product = accumulate ? weight_grad_accumulate_ : weight_grad_;
    NoteCudaFailure(product.Run(stream, WeightGradTensors(x, dy, dw), workspace));
    if (last_outputs() == 0) return;
    Matmul& last = accumulate ? last_weight_grad_accumulate_ : last_weight_grad_;
    const int64_t first = AlignedOutputs(shape_);
    NoteCudaFailure(
        last.Run(stream, WeightGradTensors(x, At(dy, first), dw + first * shape_.in), workspace));
  }

 private:
  static MatmulShape ForwardShape(const LinearShape& s, bool residual) {
    return {.m = s.rows,
            .k = s.in,
            .n = s.out_width(),
            .in = s.dtype,
            .out = s.dtype,
            .b_transposed = s.weight_transposed,
            .adds = residual,
            .epilogue = s.bias ? Epilogue::kBias : Epilogue::kNone};
  }
  static MatmulShape InputGradShape(const LinearShape& s, Epilogue epilogue) {
    return {.m = s.rows,
            .k = s.out_width(),
            .n = s.in,
            .in = s.dtype,
            .out = s.dtype,
            .b_transposed = !s.weight_transposed,
            .adds = s.add_input_grad,
            .epilogue = epilogue};
  }
  // Of so many of the outputs.
  static MatmulShape WeightGradShape(const LinearShape& s, int64_t outputs, bool accumulate) {
    return {.m = s.weight_transposed ? outputs : s.in,
            .k = s.rows,
            .n = s.weight_transposed ? s.in : outputs,
            .in = s.dtype,
            .out = DType::kFloat32,
            .a_stride = s.padded_out,
            .a_transposed = true,
            .adds = accumulate};
  }
  MatmulTensors WeightGradTensors(const void* x, const void* dy, float* dw) const {
    const bool transposed = shape_.weight_transposed;
    return {.a = transposed ? dy : x, .b = transposed ? x : dy, .c = dw, .d = dw};
  }

  // Outputs whose weights' gradients are a product of their own.
  int64_t last_outputs() const { return shape_.out - AlignedOutputs(shape_); }

  // Called before the first step, which needs packed weights: work that may wait for the device is
  // done here.
  void Rehearse(Stream stream) {
    if (std::exchange(rehearsed_, true)) return;
    for (Matmul* product :
         {&forward_, &forward_residual_, &input_grad_, &weight_grad_, &weight_grad_accumulate_}) {
      product->Rehearse(stream);
    }
    if (last_outputs() > 0) {
      last_weight_grad_.Rehearse(stream);
      last_weight_grad_accumulate_.Rehearse(stream);
    }
    if (FusesGelu(shape_)) input_grad_gelu_.Rehearse(stream);
  }

  // Element i of a tensor of the products' type.
  const void* At(const void* tensor, int64_t i) const {
    return static_cast<const std::byte*>(tensor) + i * SizeOf(shape_.dtype);
  }

  const void* Weights(const void* weight, const void* packed) const {
    return CopiesWeight(shape_) ? packed : weight;
  }

  const void* Bias(const float* bias, const void* packed) const {
    if (!RoundsBias(shape_)) return bias;
    return static_cast<const std::byte*>(packed) + PackedWeightBytes(shape_);
  }

  // Errors count as yes: Run reports them.
  static bool CanRun(Matmul& product) { return product.Available().value_or(true); }

  const LinearShape shape_;
  Matmul forward_, forward_residual_, input_grad_, input_grad_gelu_, weight_grad_,
      weight_grad_accumulate_, last_weight_grad_, last_weight_grad_accumulate_;
  bool rehearsed_ = false;
};

}  // namespace

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape) {
  return std::make_unique<CudaLinear>(shape);
}

}  // namespace sluice::cuda
