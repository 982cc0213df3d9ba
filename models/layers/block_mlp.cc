#include "models/layers/block_mlp.h"

namespace sluice {
namespace {

Activation ActivationOf(MlpKind kind) {
  return kind == MlpKind::kSwiGlu ? Activation::kSilu : Activation::kGelu;
}

}  // namespace

BlockMlp::BlockMlp(LinearLayer* layer, const DecoderConfig& config, const BlockNames& names,
                   float output_stddev)
    : layer_(layer), hidden_(config.mlp_width()), activation_(ActivationOf(config.mlp)) {
  const bool transposed = !HasGpt2Parameters(config);
  const bool gate = HasGate(config.mlp);
  const auto parameters = [&](const std::string& name, float stddev) {
    return MapParameters(name, config.mlp_bias, stddev);
  };
  // A gate's product is an operation of its own; without one, the maps on both sides apply the
  // activation and its derivative.
  const Activation inside = gate ? Activation::kNone : activation_;
  if (gate) {
    gate_map_ =
        layer->AddLinear(config.dim, hidden_, parameters(names.gate_map, config.initializer_range),
                         {.weight_transposed = transposed});
  }
  up_map_ = layer->AddLinear(
      config.dim, hidden_, parameters(names.up_map, config.initializer_range),
      {.weight_transposed = transposed, .activation = inside, .add_input_grad = gate});
  down_map_ = layer->AddLinear(hidden_, config.dim, parameters(names.down_map, output_stddev),
                               {.weight_transposed = transposed, .input_activation = inside});

  const auto add = [&](const char* name, Lifetime lifetime, bool restorable = false) {
    return layer->AddTensor(name, layer->dtype(), {layer->rows(), hidden_}, lifetime, restorable);
  };
  if (gate) gate_ = add("gate", Lifetime::kForwardToInputGrad);
  h_ = add("h", Lifetime::kForwardToInputGrad);
  g_ = add("g", down_map_->input_life(), /*restorable=*/down_map_->weight_grad_reads_input());
  if (gate) dgate_ = add("dgate", gate_map_->output_grad_life());
  dh_ = add("dh", up_map_->output_grad_life());
}

bool BlockMlp::weight_grad_reads_input() const {
  return up_map_->weight_grad_reads_input() || (gated() && gate_map_->weight_grad_reads_input());
}

void BlockMlp::Activate(const LayerCall& call, const void* input, void* workspace) const {
  void *const h = LayerBase::Tensor(call, h_), *const g = LayerBase::Tensor(call, g_);
  if (!gated()) return up_map_->Forward(call, input, nullptr, h, g, workspace);
  gate_map_->Forward(call, input, nullptr, LayerBase::Tensor(call, gate_), nullptr, workspace);
  up_map_->Forward(call, input, nullptr, h, nullptr, workspace);
  Combine(call);
}

void BlockMlp::Project(const LayerCall& call, const void* residual, void* output,
                       void* workspace) const {
  down_map_->Forward(call, LayerBase::Tensor(call, g_), residual, output, nullptr, workspace);
}

void BlockMlp::KeepForBackward(const LayerCall& call, void* workspace) const {
  down_map_->KeepForBackward(call, LayerBase::Tensor(call, g_), workspace);
}

void BlockMlp::Restore(const LayerCall& call) const {
  if (down_map_->weight_grad_reads_input()) Combine(call);
}

void BlockMlp::Combine(const LayerCall& call) const {
  const Kernels& kernels = layer_->kernels();
  void *const h = LayerBase::Tensor(call, h_), *const g = LayerBase::Tensor(call, g_);
  if (gated()) {
    kernels.gated_forward(call.stream, layer_->dtype(), activation_, elements(),
                          LayerBase::Tensor(call, gate_), h, g);
  } else {
    kernels.activation_forward(call.stream, layer_->dtype(), activation_, elements(), h, g);
  }
}

void BlockMlp::BackwardInput(const LayerCall& call, const void* output_grad, void* input_grad,
                             void* workspace) const {
  void *const h = LayerBase::Tensor(call, h_), *const dh = LayerBase::Tensor(call, dh_);
  if (gated()) {
    void* const dgate = LayerBase::Tensor(call, dgate_);
    void* const dg = dh;  // which the gate's backward overwrites
    down_map_->BackwardInput(call, output_grad, nullptr, dg, workspace);
    layer_->kernels().gated_backward(call.stream, layer_->dtype(), activation_, elements(),
                                     LayerBase::Tensor(call, gate_), h, dg, dgate, dh);
    gate_map_->BackwardInput(call, dgate, nullptr, input_grad, workspace);
  } else {
    down_map_->BackwardInput(call, output_grad, h, dh, workspace);
  }
  up_map_->BackwardInput(call, dh, nullptr, input_grad, workspace);
}

void BlockMlp::BackwardWeight(const LayerCall& call, const void* input, const void* output_grad,
                              LinearLayer::WeightPass* pass) const {
  down_map_->BackwardWeight(call, LayerBase::Tensor(call, g_), output_grad, pass);
  up_map_->BackwardWeight(call, input, LayerBase::Tensor(call, dh_), pass);
  if (gated()) {
    gate_map_->BackwardWeight(call, input, LayerBase::Tensor(call, dgate_), pass);
  }
}

}  // namespace sluice
