#ifndef SLUICE_MODELS_LAYERS_LINEAR_LAYER_H_
#define SLUICE_MODELS_LAYERS_LINEAR_LAYER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "models/layers/adapter.h"
#include "models/layers/layer_base.h"

namespace sluice {

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

  using SummedBiases = absl::InlinedVector<SummedColumns, 8>;  // a block has seven maps at most
  // What the maps of one W share: its work area, and the biases whose gradients are still to be
  // taken, all at once (AddBiasGradients).
  struct WeightPass {
    void* workspace = nullptr;
    SummedBiases biases;
  };

  class Map {
   public:
    const Linear& kernel() const { return *linear_; }
    // Elements of a row of y.
    int64_t out_width() const { return out_width_; }
    // Whether BackwardWeight reads its x, and its dy: not where nobody takes the gradients that are
    // made of them.
    bool weight_grad_reads_input() const { return !weight_frozen_ || adapter_.has_value(); }
    bool weight_grad_reads_output_grad() const {
      return weight_grad_reads_input() || !bias_frozen_;
    }
    // The lives of x where I does not read it, and of dy.
    Lifetime input_life() const {
      return weight_grad_reads_input() ? Lifetime::kForwardToWeightGrad : Lifetime::kForwardScratch;
    }
    Lifetime output_grad_life() const {
      return weight_grad_reads_output_grad() ? Lifetime::kInputGradToWeightGrad
                                             : Lifetime::kInputGradScratch;
    }
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
    // Without the bias's gradient, which it adds to those of `pass`: dy must stay until then.
    void BackwardWeight(const LayerCall& call, const void* x, const void* dy,
                        WeightPass* pass) const;

   private:
    friend class LinearLayer;
    void* PackedWeight(const LayerCall& call) const;

    std::unique_ptr<Linear> linear_;
    int64_t out_width_ = 0;
    std::optional<Adapter> adapter_;
    bool weight_frozen_ = false;
    bool bias_frozen_ = true;  // or there is none
    int weight_ = kAbsent;
    int bias_ = kAbsent;
    SummedColumns bias_of_;  // its shape
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
  // W's last step, and the bytes of its work area for the maps added so far.
  void AddBiasGradients(const LayerCall& call, const WeightPass& pass) const;
  size_t bias_workspace() const;

 private:
  std::vector<std::unique_ptr<Map>> maps_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_LINEAR_LAYER_H_
