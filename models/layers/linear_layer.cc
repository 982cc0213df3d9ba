#include "models/layers/linear_layer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/strip.h"

namespace sluice {
namespace {

// The one map that never has an adapter, as in PEFT's "all-linear".
constexpr char kHead[] = "lm_head";

}  // namespace

LinearParameters MapParameters(const std::string& name, bool bias, float stddev) {
  return {name + ".weight", bias ? name + ".bias" : "", stddev, ""};
}

const LinearLayer::Map* LinearLayer::AddLinear(int64_t in_width, int64_t out_width,
                                               const LinearParameters& parameters,
                                               LinearShape shape) {
  if (shape.rows == 0) shape.rows = rows();
  shape.in = in_width;
  shape.out = out_width;
  shape.dtype = dtype();
  shape.bias = !parameters.bias.empty();
  auto map = std::make_unique<Map>();
  // An adapter's product comes between the map's own and the activations.
  const std::string module(absl::StripSuffix(parameters.weight, ".weight"));
  const std::optional<Lora>& lora = adaptation().lora;
  const bool adapted = lora.has_value() && module != kHead && lora->Targets(module);
  const LinearShape asked = shape;
  if (adapted) shape.activation = shape.input_activation = Activation::kNone;
  ParameterDecl weight;
  weight.name = parameters.weight;
  weight.shape = shape.weight_transposed ? Shape{out_width, in_width} : Shape{in_width, out_width};
  weight.init = ParameterDecl::Init::kNormal;
  weight.stddev = parameters.stddev;
  weight.decay = true;
  weight.tied_to = parameters.tied_to;
  if (shape.padded_out == out_width) shape.padded_out = 0;
  weight.padding = (shape.out_width() - out_width) * in_width;
  map->weight_ = AddParameter(std::move(weight));
  shape.weight_dtype = TypeOf(map->weight_);
  map->out_width_ = shape.out_width();
  map->linear_ = kernels().make_linear(shape);
  map->packed_offset_ = AddPacked(map->linear_->packed_bytes());
  map->weight_frozen_ = IsFrozen(map->weight_);
  if (shape.bias) {
    map->bias_ = AddParameter({.name = parameters.bias, .shape = {out_width}, .tied_to = ""});
    map->bias_frozen_ = IsFrozen(map->bias_);
    map->bias_of_ = {.rows = shape.rows, .columns = out_width};
  }
  if (adapted) map->adapter_.emplace(this, module, asked, *lora);
  maps_.push_back(std::move(map));
  return maps_.back().get();
}

size_t LinearLayer::LargestWorkspace(size_t (Map::*of)() const) const {
  size_t bytes = 0;
  for (const std::unique_ptr<Map>& map : maps_) bytes = std::max(bytes, (map.get()->*of)());
  return bytes;
}

size_t LinearLayer::Map::forward_workspace() const {
  const size_t own = linear_->forward_workspace();
  return adapter_ ? std::max(own, adapter_->forward_workspace()) : own;
}

size_t LinearLayer::Map::input_grad_workspace() const {
  const size_t own = linear_->input_grad_workspace();
  return adapter_ ? std::max(own, adapter_->input_grad_workspace()) : own;
}

size_t LinearLayer::Map::weight_grad_workspace() const {
  const size_t own = weight_frozen_ ? 0 : linear_->weight_grad_workspace();
  return adapter_ ? std::max(own, adapter_->weight_grad_workspace()) : own;
}

void LinearLayer::Pack(const LayerCall& call) {
  for (const std::unique_ptr<Map>& map : maps_) map->Pack(call);
}

void* LinearLayer::Map::PackedWeight(const LayerCall& call) const {
  return linear_->packed_bytes() == 0 ? nullptr : Packed(call, packed_offset_);
}

void LinearLayer::Map::Pack(const LayerCall& call) const {
  if (adapter_) adapter_->Pack(call);
  linear_->Pack(call.stream, Parameter(call, weight_), FloatParameter(call, bias_),
                PackedWeight(call));
}

void LinearLayer::Map::Forward(const LayerCall& call, const void* x, const void* residual, void* y,
                               void* activated, void* workspace) const {
  linear_->Forward(call.stream, x, Parameter(call, weight_), PackedWeight(call),
                   FloatParameter(call, bias_), residual, y, adapter_ ? nullptr : activated,
                   workspace);
  if (adapter_) adapter_->Forward(call, x, y, activated, workspace);
}

void LinearLayer::Map::KeepForBackward(const LayerCall& call, const void* x,
                                       void* workspace) const {
  if (adapter_) adapter_->Narrow(call, x, workspace);
}

void LinearLayer::Map::BackwardInput(const LayerCall& call, const void* dy,
                                     const void* input_before_activation, void* dx,
                                     void* workspace) const {
  linear_->BackwardInput(call.stream, dy, Parameter(call, weight_), PackedWeight(call),
                         adapter_ ? nullptr : input_before_activation, dx, workspace);
  if (adapter_) adapter_->BackwardInput(call, dy, input_before_activation, dx, workspace);
}

void LinearLayer::Map::BackwardWeight(const LayerCall& call, const void* x, const void* dy,
                                      WeightPass* pass) const {
  if (!weight_frozen_) {
    linear_->BackwardWeight(call.stream, x, dy, Gradient(call, weight_), call.accumulate,
                            pass->workspace);
  }
  if (adapter_) adapter_->BackwardWeight(call, x, dy, pass->workspace);
  if (bias_frozen_) return;
  SummedColumns& bias = pass->biases.emplace_back(bias_of_);
  bias.x = dy;
  bias.sums = Gradient(call, bias_);
}

void LinearLayer::AddBiasGradients(const LayerCall& call, const WeightPass& pass) const {
  if (pass.biases.empty()) return;
  kernels().column_sums(call.stream, dtype(), pass.biases, call.accumulate, pass.workspace);
}

size_t LinearLayer::bias_workspace() const {
  SummedBiases biases;
  for (const std::unique_ptr<Map>& map : maps_) {
    if (!map->bias_frozen_) biases.push_back(map->bias_of_);
  }
  return biases.empty() ? 0 : kernels().column_sums_workspace(biases);
}

}  // namespace sluice
