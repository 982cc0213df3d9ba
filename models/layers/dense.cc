#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"

namespace sluice {
namespace {

// He et al. 2015, equation 10: the deviation that keeps the variance through a ReLU.
float HeStddev(int64_t in) { return std::sqrt(2.0f / static_cast<float>(in)); }

// z = x * W + b. What follows z, and so what I finds there, is left to the two kinds below.
class Dense : public LinearLayer {
 public:
  Dense(const MlpConfig& config, int index, const LayerContext& context)
      : LinearLayer(context),
        in_(config.widths[static_cast<size_t>(index)]),
        out_(config.widths[static_cast<size_t>(index) + 1]) {
    decl_.name = absl::StrCat("linear ", index);
    const std::string prefix = absl::StrCat("layers.", index);
    map_ = AddLinear(in_, out_, {prefix + ".weight", prefix + ".bias", HeStddev(in_), ""},
                     {.weight_transposed = true});
    const Linear& kernel = map_->kernel();
    const bool last = static_cast<size_t>(index) + 2 == config.widths.size();
    forward_workspace_ = AddWorkspace(
        "forward_workspace", Lifetime::kForwardScratch,
        {kernel.forward_workspace(), last ? kernels().cross_entropy_workspace(rows(), out_) : 0});
    input_workspace_ = AddWorkspace("input_grad_workspace", Lifetime::kInputGradScratch,
                                    {kernel.input_grad_workspace()});
    weight_workspace_ = AddWorkspace("weight_grad_workspace", Lifetime::kWeightGradScratch,
                                     {map_->weight_grad_workspace(), bias_workspace()});
    decl_.input_dtype = dtype();
    decl_.input_shape = {rows(), in_};
    decl_.input_use = map_->weight_grad_reads_input() ? LastUse::kWeightGrad : LastUse::kForward;
    decl_.has_input_grad = index > 0;
  }

 protected:
  int64_t out() const { return out_; }
  const Map& map() const { return *map_; }
  void* ForwardWorkspace(const LayerCall& call) const { return Tensor(call, forward_workspace_); }
  void Multiply(const LayerCall& call, int z) {
    map_->Forward(call, call.input, nullptr, Tensor(call, z), nullptr, ForwardWorkspace(call));
  }
  void MultiplyBack(const LayerCall& call, int dz) {
    if (!decl_.has_input_grad) return;
    map_->BackwardInput(call, Tensor(call, dz), nullptr, call.input_grad,
                        Tensor(call, input_workspace_));
  }
  void AddWeightGradients(const LayerCall& call, int dz) {
    WeightPass pass{.workspace = Tensor(call, weight_workspace_), .biases = {}};
    map_->BackwardWeight(call, call.input, Tensor(call, dz), &pass);
    AddBiasGradients(call, pass);
  }

 private:
  int64_t in_, out_;
  const Map* map_;
  int forward_workspace_, input_workspace_, weight_workspace_;
};

// y = relu(z).
class HiddenDense : public Dense {
 public:
  HiddenDense(const MlpConfig& config, int index, const LayerContext& context)
      : Dense(config, index, context) {
    z_ = AddTensor("z", dtype(), {rows(), out()}, Lifetime::kForwardToInputGrad);
    dz_ = AddTensor("dz", dtype(), {rows(), out()}, map().output_grad_life());
    decl_.output_dtype = dtype();
    decl_.output_shape = {rows(), out()};
    decl_.output_grad_use = LastUse::kInputGrad;
  }

  void Forward(const LayerCall& call) override {
    Multiply(call, z_);
    if (call.output == nullptr) return;
    kernels().activation_forward(call.stream, dtype(), Activation::kRelu, rows() * out(),
                                 Tensor(call, z_), call.output);
  }
  void BackwardInput(const LayerCall& call) override {
    kernels().activation_backward(call.stream, dtype(), Activation::kRelu, rows() * out(),
                                  Tensor(call, z_), call.output_grad, Tensor(call, dz_));
    MultiplyBack(call, dz_);
  }
  void BackwardWeight(const LayerCall& call) override { AddWeightGradients(call, dz_); }

 private:
  int z_, dz_;
};

// loss = cross-entropy(z); z becomes dz in place.
class LastDense : public Dense {
 public:
  LastDense(const MlpConfig& config, int index, const LayerContext& context)
      : Dense(config, index, context) {
    logits_ = AddTensor("logits", dtype(), {rows(), out()},
                        map().weight_grad_reads_output_grad() ? Lifetime::kForwardToWeightGrad
                                                              : Lifetime::kForwardToInputGrad);
  }

  void Forward(const LayerCall& call) override {
    Multiply(call, logits_);
    if (call.targets == nullptr) return;
    kernels().cross_entropy(call.stream, {.dtype = dtype(), .rows = rows(), .classes = out()},
                            Tensor(call, logits_), call.targets, call.loss_scale,
                            /*accumulate=*/false, call.loss, call.correct, ForwardWorkspace(call));
  }
  void BackwardInput(const LayerCall& call) override { MultiplyBack(call, logits_); }
  void BackwardWeight(const LayerCall& call) override { AddWeightGradients(call, logits_); }
  void Logits(const LayerCall& call, int64_t first_row, int64_t count, void* to) override {
    const int64_t row_bytes = out() * SizeOf(dtype());
    kernels().copy(call.stream, to,
                   static_cast<std::byte*>(Tensor(call, logits_)) + first_row * row_bytes,
                   static_cast<size_t>(count * row_bytes));
  }

 private:
  int logits_;
};

}  // namespace

std::unique_ptr<Layer> MakeDense(const MlpConfig& config, int index, const LayerContext& context) {
  const bool last = static_cast<size_t>(index) + 2 == config.widths.size();
  if (last) return std::make_unique<LastDense>(config, index, context);
  return std::make_unique<HiddenDense>(config, index, context);
}

}  // namespace sluice
