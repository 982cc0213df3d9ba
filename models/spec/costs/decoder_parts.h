#ifndef SLUICE_MODELS_SPEC_COSTS_DECODER_PARTS_H_
#define SLUICE_MODELS_SPEC_COSTS_DECODER_PARTS_H_

#include <cstdint>
#include <functional>

namespace sluice {

// What of a decoder has parameters, and can be trained or frozen by itself.
enum class DecoderPart : uint8_t {
  kTables,  // the embedding's two, frozen together or not at all
  kAttentionNorm,
  kMlpNorm,
  kAfterAttentionNorm,
  kAfterMlpNorm,
  kQueryNorm,
  kKeyNorm,
  kQueryMap,
  kKeyMap,
  kValueMap,
  kOutputMap,
  kGateMap,
  kUpMap,
  kDownMap,
  kFinalNorm,
  kHeadMap,
  kOther,  // what no family that trains has: always trained
};

// What of a part is trained.
struct PartTraining {
  bool weight = true;
  bool bias = true;
  // Of the pair of narrow maps beside a map (Lora in adaptation.h); 0: none.
  int64_t adapter_rank = 0;
  // One adapter is beside this map and the one before it, as where a family stores queries, keys
  // and values as one map: its A is that of the map before.
  bool continues_adapter = false;
  bool adapter_dropout = false;

  bool adapted() const { return adapter_rank > 0; }
};

// Of block `block` of a decoder; of what is outside of the blocks, 0. Empty: all is trained.
using TrainedParts = std::function<PartTraining(DecoderPart part, int64_t block)>;

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_COSTS_DECODER_PARTS_H_
