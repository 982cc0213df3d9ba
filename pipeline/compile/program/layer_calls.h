#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_LAYER_CALLS_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_LAYER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/layers/layer.h"
#include "pipeline/compile/program/program_builder.h"

namespace sluice {

// Which weights a call reads, and where its gradient goes.
struct CallPlace {
  int layer = 0;  // position among the rank's layers
  int micro_batch = 0;
  // What F drops, and Rebuild brings back.
  Recompute recompute = Recompute::kNone;
  int slot = 0;                    // as in CallBuffers
  bool second_gradient = false;    // likewise
  bool accumulate = false;         // likewise
  BufferId gradients = kNoBuffer;  // likewise
};

// Appends the calls of single layers and keeps, for each layer and micro-batch, which buffers its
// later calls find in memory.
class LayerCalls {
 public:
  // `layers[i]` declares the rank's layer i.
  LayerCalls(std::vector<const LayerDecl*> layers, int micro_batches, ProgramBuilder* builder);

  // What the samples of a micro-batch bring to a layer, besides its input.
  struct Samples {
    BufferId targets = kNoBuffer;  // of the last layer
    BufferId starts = kNoBuffer;   // where the layer uses them
  };

  // The call's input and samples, for this and all later calls.
  void SetInput(const CallPlace& place, BufferId input, const Samples& samples);
  // Returns the layer's output; kNoBuffer for the model's last layer.
  BufferId Forward(const CallPlace& place);
  // Brings back what was dropped after F.
  void Rebuild(const CallPlace& place);
  // Returns the gradient of the layer's input; kNoBuffer for the model's first layer.
  BufferId InputGrad(const CallPlace& place, BufferId output_grad);
  void WeightGrad(const CallPlace& place);

 private:
  // What the backward calls of (layer, micro-batch) find in memory.
  struct Frame {
    BufferId input = kNoBuffer;
    BufferId output_grad = kNoBuffer;
    Samples samples;
    std::vector<BufferId> tensors;
  };

  BufferId ForwardCall(const CallPlace& place, bool rebuild);
  void Restore(const CallPlace& place);
  const LayerDecl& Decl(const CallPlace& place) const {
    return *layers_[static_cast<size_t>(place.layer)];
  }
  Frame& At(const CallPlace& place) {
    return frames_[static_cast<size_t>(place.layer) * micro_batches_ +
                   static_cast<size_t>(place.micro_batch)];
  }

  const std::vector<const LayerDecl*> layers_;
  const size_t micro_batches_;
  ProgramBuilder& builder_;
  std::vector<Frame> frames_;  // [local layer][micro-batch]
};

int64_t InputBytes(const LayerDecl& decl);
int64_t OutputBytes(const LayerDecl& decl);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_LAYER_CALLS_H_
