#ifndef SLUICE_MODELS_SPEC_ROPE_H_
#define SLUICE_MODELS_SPEC_ROPE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

// How rotary positions are stretched over sequences longer than those of the first training: not at
// all; every frequency divided by one factor (position interpolation, Chen et al. 2023); only the
// low frequencies (Grattafiori et al., The Llama 3 Herd of Models, 2024, as released with 3.1); or
// a ramp between both (Peng et al., YaRN, 2023, section 3.2).
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

const char* RopeScalingName(RopeScaling scaling);  // transformers': "default", "linear", ...
std::optional<RopeScaling> ParseRopeScaling(absl::string_view name);

// Rotary positions (Su et al., RoFormer, 2021, section 3.2.2), with the fields and defaults of
// transformers' rope_parameters.
struct Rope {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;                                           // of every scaling
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;                        // yarn
  // yarn: cosine and sine are multiplied by it; 0: what RopeMagnitude() derives.
  double attention_factor = 0;
  double mscale = 0, mscale_all_dim = 0;  // yarn; 0: not said
  bool truncate = true;                   // yarn: the ramp begins and ends at whole pairs
  int64_t original_max_seq = 0;           // llama3 and yarn; 0: the model's max_seq
  friend bool operator==(const Rope&, const Rope&) = default;
};

// Radians by which a position turns each pair of a head's values, [head_dim / 2], in fp32 as
// transformers 5.23 computes them (modeling_rope_utils.py). `max_seq` is the model's longest
// sequence.
std::vector<float> InverseFrequencies(const Rope& rope, int64_t head_dim, int64_t max_seq);

// What cosine and sine are multiplied by: 1 but for yarn, where it is `attention_factor`, else
// follows from `factor`, `mscale` and `mscale_all_dim` (YaRN, equation 22; DeepSeek-V2's form).
float RopeMagnitude(const Rope& rope);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_ROPE_H_
