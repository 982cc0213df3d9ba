#ifndef SLUICE_PIPELINE_RUN_STAGE_DIGEST_H_
#define SLUICE_PIPELINE_RUN_STAGE_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/layers/layer.h"
#include "pipeline/compile/plan/program.h"

namespace sluice {

// Hashes (XXH3) of all that a stage computes of one micro-batch, and of what it computes with.
struct StageHashes {
  uint64_t weights = 0;
  uint64_t input = 0;
  uint64_t output_grad = 0;  // 0 of the model's last stage, which has none
  uint64_t output = 0;       // of the model's last stage: the loss and the number of right answers
  uint64_t input_grad = 0;   // 0 of the model's first stage, which has none
  uint64_t gradients = 0;    // of the weights, with what was summed before

  friend bool operator==(const StageHashes&, const StageHashes&) = default;
};

uint64_t HashBytes(const void* data, int64_t bytes);
// Of several hashes, in order.
uint64_t HashAll(const std::vector<uint64_t>& hashes);

// Takes the hashes of a stage's results from the calls of its layers, in the order in which these
// are made. On ordinary memory.
class StageDigest {
 public:
  // For a stage of so many layers, and for the next micro-batch of one.
  void Begin(size_t layers);
  // After a call of layer `layer` of the stage has done `step`.
  void Note(Step step, size_t layer, const LayerDecl& decl, const LayerCall& call);
  // Of what the stage has computed, not of what it came with.
  StageHashes Hashes() const;

 private:
  std::vector<uint64_t> gradients_;  // [layer]
  bool has_output_ = false;          // a second forward rebuilds what the first one dropped
  uint64_t output_ = 0;
  uint64_t input_grad_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_STAGE_DIGEST_H_
