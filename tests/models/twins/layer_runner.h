#ifndef SLUICE_TESTS_MODELS_TWINS_LAYER_RUNNER_H_
#define SLUICE_TESTS_MODELS_TWINS_LAYER_RUNNER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "models/layers/layer.h"

namespace sluice {

// Exactly `bytes` (so that a sanitizer sees an overrun), aligned as arenas are, poisoned until
// written.
class OwnBuffer {
 public:
  OwnBuffer() = default;
  explicit OwnBuffer(int64_t bytes);

  void* data() { return data_.get(); }
  float* floats() { return static_cast<float*>(data()); }
  int64_t bytes() const { return bytes_; }
  void Poison();

 private:
  struct Delete {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Delete> data_;
  int64_t bytes_ = 0;
};

// Moments after which a micro-batch's tensors may be gone.
enum class Moment : uint8_t { kForward, kRestore, kInputGrad, kWeightGrad };

// One layer's memory for one micro-batch: every declared tensor in a buffer of its own. The
// boundary tensors belong to whoever set the pointers.
struct LayerState {
  explicit LayerState(const LayerDecl& layer_decl);

  // Poisons what need not outlive `moment`: tensors by their lifetime, input and output_grad by
  // their last use.
  void Expire(Moment moment);
  // Poisons what a stage that recomputes does not keep between forward and backward.
  void Drop(Recompute recompute);

  const LayerDecl* decl;
  std::vector<OwnBuffer> tensors;
  std::vector<void*> pointers;
  OwnBuffer* input = nullptr;
  OwnBuffer* output = nullptr;
  OwnBuffer* output_grad = nullptr;
  OwnBuffer* input_grad = nullptr;
};

// One layer with its weights, gradients and packed weights, in memory of its own.
class LayerRunner {
 public:
  using Init = std::function<void(const ParameterDecl&, void* values)>;

  LayerRunner(std::unique_ptr<Layer> layer, const Init& init);

  Layer& layer() { return *layer_; }
  const LayerDecl& decl() const { return layer_->decl(); }
  std::vector<OwnBuffer>& parameters() { return parameters_; }
  std::vector<OwnBuffer>& gradients() { return gradients_; }
  // To be called after a change of the parameters.
  void Pack();
  // A call of any of the layer's functions on `state`.
  LayerCall Call(LayerState& state);

 private:
  std::unique_ptr<Layer> layer_;
  std::vector<OwnBuffer> parameters_, gradients_;
  std::vector<void*> parameter_pointers_;
  std::vector<float*> gradient_pointers_;
  OwnBuffer packed_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_TWINS_LAYER_RUNNER_H_
