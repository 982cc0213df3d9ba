#ifndef SLUICE_PIPELINE_RUN_STAGE_DIGEST_H_
#define SLUICE_PIPELINE_RUN_STAGE_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/layers/layer.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/run/tensor_hashes.h"

namespace sluice {

// Hashes of all that a stage computes of one micro-batch, and of what it computes with.
struct StageHashes {
  uint64_t weights = 0;
  uint64_t input = 0;
  uint64_t output_grad = 0;  // 0 of the model's last stage, which has none
  uint64_t output = 0;       // of the model's last stage: the loss and the number of right answers
  uint64_t input_grad = 0;   // 0 of the model's first stage, which has none
  uint64_t gradients = 0;    // of the weights, with what was summed before

  friend bool operator==(const StageHashes&, const StageHashes&) = default;
};

// Takes the hashes of what a stage's micro-batch comes with, and of its results from the calls of
// its layers, in the order in which these are made.
class StageDigest {
 public:
  // Room for stages of at most so many parameters; errors are those of TensorHashes::Open.
  absl::Status Open(const RankState& state, size_t most_parameters);
  // For a stage of so many layers, and for the next micro-batch of one.
  void Begin(size_t layers);
  // What the micro-batch comes with, as the stream's work so far leaves it. A null tensor is none.
  void NoteWeights(const std::vector<HashedTensor>& weights);
  void NoteInput(const void* input, int64_t bytes);
  void NoteOutputGrad(const void* output_grad, int64_t bytes);
  // After a call of layer `layer` of the stage has done `step`.
  void Note(Step step, size_t layer, const LayerDecl& decl, const LayerCall& call);
  // Once the stream's work is done. Without weights where none were noted.
  StageHashes Hashes() const;

 private:
  // Hashes that together are one.
  struct Range {
    size_t first = 0;
    size_t end = 0;
  };
  Range Take(const std::vector<HashedTensor>& tensors);
  uint64_t Of(const Range& range) const;

  TensorHashes hashes_;
  std::vector<Range> gradients_;  // [layer]
  bool has_output_ = false;       // a second forward rebuilds what the first one dropped
  Range weights_, input_, output_grad_, output_, input_grad_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_STAGE_DIGEST_H_
