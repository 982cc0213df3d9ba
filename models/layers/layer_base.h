#ifndef SLUICE_MODELS_LAYERS_LAYER_BASE_H_
#define SLUICE_MODELS_LAYERS_LAYER_BASE_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>

#include "models/layers/layer.h"

namespace sluice {

// What every layer is made with.
struct LayerContext {
  BatchShape batch;
  DType dtype = DType::kFloat32;  // the compute type
  const Kernels* kernels = nullptr;
  int64_t cached_positions = 0;  // of a layer that continues a sequence: see cached_layer.h
  Adaptation adaptation = {};
};

// Declares parameters and tensors, and finds them again in a call: indices are given out at
// construction, in the order of the LayerDecl.
class LayerBase : public Layer {
 public:
  static constexpr int kAbsent = -1;

  // Layers without weights to pack, or with nothing restorable, need not say so.
  void Pack(const LayerCall&) override {}
  void Restore(const LayerCall&) override {}

  // For the layer and the parts that it is made of; whoever runs it has a Layer.
  const Kernels& kernels() const { return *context_.kernels; }
  DType dtype() const { return context_.dtype; }
  const BatchShape& batch() const { return context_.batch; }
  const Adaptation& adaptation() const { return context_.adaptation; }
  int64_t rows() const { return context_.batch.rows(); }
  int64_t cached_positions() const { return context_.cached_positions; }

  int AddParameter(ParameterDecl parameter);
  DType TypeOf(int parameter) const {
    return decl_.parameters[static_cast<size_t>(parameter)].dtype;
  }
  bool IsFrozen(int parameter) const {
    return decl_.parameters[static_cast<size_t>(parameter)].frozen;
  }
  int AddTensor(std::string name, DType dtype, Shape shape, Lifetime lifetime,
                bool restorable = false);
  // One work area for several kernels that run one after the other; kAbsent when none needs any.
  int AddWorkspace(std::string name, Lifetime lifetime, std::initializer_list<size_t> sizes);
  // Room in the packed weights; returns where it begins.
  size_t AddPacked(size_t bytes);

  static void* Packed(const LayerCall& call, size_t offset) {
    return static_cast<std::byte*>(call.packed) + offset;
  }
  static void* Tensor(const LayerCall& call, int index) {
    return index == kAbsent ? nullptr : call.tensors[static_cast<size_t>(index)];
  }
  static float* FloatTensor(const LayerCall& call, int index) {
    return static_cast<float*>(Tensor(call, index));
  }
  static const void* Parameter(const LayerCall& call, int index) {
    return index == kAbsent ? nullptr : call.parameters[static_cast<size_t>(index)];
  }
  // Of a vector, which is always fp32.
  static const float* FloatParameter(const LayerCall& call, int index) {
    return static_cast<const float*>(Parameter(call, index));
  }
  static float* Gradient(const LayerCall& call, int index) {
    return index == kAbsent ? nullptr : call.gradients[static_cast<size_t>(index)];
  }

 protected:
  explicit LayerBase(const LayerContext& context) : context_(context) {}

 private:
  LayerContext context_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_LAYER_BASE_H_
