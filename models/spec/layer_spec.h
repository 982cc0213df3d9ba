#ifndef SLUICE_MODELS_SPEC_LAYER_SPEC_H_
#define SLUICE_MODELS_SPEC_LAYER_SPEC_H_

#include <cstdint>
#include <string>

namespace sluice {

// The shape of one micro-batch: `size` samples, each of `seq` tokens (1 for an MLP).
struct BatchShape {
  int64_t size = 1;
  int64_t seq = 1;
  int64_t rows() const { return size * seq; }
};

// What a stage forgets between forward and backward: nothing; attention outputs and element-wise
// results, cheap to rebuild (Korthikanti et al. 2022, section 5); everything but each layer's
// input.
enum class Recompute : uint8_t { kNone, kSelective, kFull };

// What one layer is, from shapes alone, for one micro-batch. FLOPs count a multiply-add as two;
// matrix products only, and causal attention at half (as the MFU of the literature does).
struct LayerSpec {
  std::string name;  // "embedding", "block 3", "head", "linear 0"
  int64_t parameters = 0;
  double forward_flops = 0;
  double input_grad_flops = 0;
  double weight_grad_flops = 0;
  // Of weight_grad_flops, those of F's products that W computes once more. What a model needs, and
  // so its MFU, leaves them out.
  double repeated_flops = 0;
  // Of forward_flops, F's products with weights, each counted once; and those of activations with
  // activations, which are attention's.
  double product_flops = 0;
  double attention_flops = 0;
  int64_t output_elements = 0;  // activations sent on, per micro-batch (of the compute type)
};

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_LAYER_SPEC_H_
