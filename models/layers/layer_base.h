#ifndef SLUICE_MODELS_LAYERS_LAYER_BASE_H_
#define SLUICE_MODELS_LAYERS_LAYER_BASE_H_

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "models/layers/adapter.h"
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
  static const float* Parameter(const LayerCall& call, int index) {
    return index == kAbsent ? nullptr : call.parameters[static_cast<size_t>(index)];
  }
  static float* Gradient(const LayerCall& call, int index) {
    return index == kAbsent ? nullptr : call.gradients[static_cast<size_t>(index)];
  }

 protected:
  explicit LayerBase(const LayerContext& context) : context_(context) {}

 private:
  LayerContext context_;
};

// Names and initial values of one linear map's parameters; an empty `bias` means none.
struct LinearParameters {
  std::string weight;
  std::string bias;
  float stddev = 0;
  std::string tied_to;
};

// Those of the map `name`, as Hugging Face writes it: "model.layers.0.mlp.up_proj".
LinearParameters MapParameters(const std::string& name, bool bias, float stddev);

// A layer made of linear maps: each knows where its weight, bias and packed copy lie in a call.
class LinearLayer : public LayerBase {
 public:
  void Pack(const LayerCall& call) override;

  class Map {
   public:
    const Linear& kernel() const { return *linear_; }
    // Weight and bias, whose gradients nobody takes.
    bool is_frozen() const { return frozen_; }
    // Bytes of the work areas of the functions below.
    size_t forward_workspace() const;
    size_t input_grad_workspace() const;
    size_t weight_grad_workspace() const;
    // What Forward leaves for the backward, where nobody wants its result.
    void KeepForBackward(const LayerCall& call, const void* x, void* workspace) const;
    // Linear's functions, on this map's parameters in `call`.
    void Pack(const LayerCall& call) const;
    void Forward(const LayerCall& call, const void* x, const void* residual, void* y,
                 void* activated, void* workspace) const;
    void BackwardInput(const LayerCall& call, const void* dy, const void* input_before_activation,
                       void* dx, void* workspace) const;
    void BackwardWeight(const LayerCall& call, const void* x, const void* dy,
                        void* workspace) const;

   private:
    friend class LinearLayer;
    void* PackedWeight(const LayerCall& call) const;

    std::unique_ptr<Linear> linear_;
    std::optional<Adapter> adapter_;
    bool frozen_ = false;
    int weight_ = kAbsent;
    int bias_ = kAbsent;
    size_t packed_offset_ = 0;
  };

  // Maps in_width columns of all rows, or of shape.rows, to out_width; `shape` gives everything
  // else that is not the default. The layer keeps the map.
  const Map* AddLinear(int64_t in_width, int64_t out_width, const LinearParameters& parameters,
                       LinearShape shape = {});

 protected:
  using LayerBase::LayerBase;
  // Bytes of the work area that serves any of the maps added so far, one after the other:
  // LargestWorkspace(&Map::forward_workspace).
  size_t LargestWorkspace(size_t (Map::*of)() const) const;

 private:
  std::vector<std::unique_ptr<Map>> maps_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_LAYER_BASE_H_
