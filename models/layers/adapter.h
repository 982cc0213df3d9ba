#ifndef SLUICE_MODELS_LAYERS_ADAPTER_H_
#define SLUICE_MODELS_LAYERS_ADAPTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "models/layers/layer_base.h"

namespace sluice {

// The low-rank part of a linear map y = x W, W frozen (Hu et al. 2021, "LoRA", section 4.1):
//
//   x' = dropout(x)         where there is any; PEFT's, on the adapter's input alone
//   u  = s x' A^T           [rows, rank], by F until W
//   y += u B^T, then the map's activation, if it has one
//   du = s dy B             [rows, rank], by I until W
//   dx += du A through the dropout, then the derivative of the activation that made x
//   dA = du^T x', dB = dy^T u
//
// with A [rank, in], B [out, rank] and s Lora::scale(). x' is not kept: W drops once more, by the
// numbers of the same rows.
class Adapter {
 public:
  // Declares parameters and tensors in `layer`; `shape` is that of the map, with its activations.
  Adapter(LayerBase* layer, const std::string& module, const LinearShape& shape, const Lora& lora);

  size_t forward_workspace() const;
  size_t input_grad_workspace() const;
  size_t weight_grad_workspace() const;

  void Pack(const LayerCall& call) const;
  // u alone.
  void Narrow(const LayerCall& call, const void* x, void* workspace) const;
  // Adds to y, which has the map's own product, and activates it into `activated`.
  void Forward(const LayerCall& call, const void* x, void* y, void* activated,
               void* workspace) const;
  // Adds to dx, which has the map's own product.
  void BackwardInput(const LayerCall& call, const void* dy, const void* input_before_activation,
                     void* dx, void* workspace) const;
  void BackwardWeight(const LayerCall& call, const void* x, const void* dy, void* workspace) const;

 private:
  void Scale(const LayerCall& call, void* narrow) const;
  // Room for x' (or its gradient) at the beginning of a work area; what the products need follows.
  size_t dropped_bytes() const;
  void* Behind(void* workspace) const;
  // x, or x' in the work area.
  const void* Dropped(const LayerCall& call, const void* x, void* workspace) const;
  DropoutMask MaskOf(const LayerCall& call) const;

  const Kernels* kernels_;
  LinearShape shape_;
  int64_t rank_;
  float scale_;
  double dropout_;
  uint64_t stream_;  // of random numbers, by A's name
  // A as a map from x to u. B as a map from dy to du, so that its input gradient adds u B^T to y.
  std::unique_ptr<Linear> down_, up_;
  int a_, b_;   // parameters
  int u_, du_;  // tensors
  size_t packed_a_, packed_b_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_ADAPTER_H_
