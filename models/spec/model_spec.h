#ifndef SLUICE_MODELS_SPEC_MODEL_SPEC_H_
#define SLUICE_MODELS_SPEC_MODEL_SPEC_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "models/spec/decoder.h"

namespace sluice {

// A multi-layer perceptron classifier: `widths` = input, hidden..., classes; ReLU between.
struct MlpConfig {
  std::vector<int> widths = {784, 512, 256, 10};
  friend bool operator==(const MlpConfig&, const MlpConfig&) = default;
};

// A model, to be trained or only to be planned for: models/layers/trainable.h says which. Its
// layers, numbered from 0, are what partitions speak of:
//   decoder: 0 the embedding, 1..layers the blocks, then [the blocks that predict ahead], at last
//   the final norm and head (layers + predict_ahead + 2 in all);
//   MLP: one per weight matrix (widths - 1 in all).
struct ModelSpec {
  std::string name;
  std::variant<DecoderConfig, MlpConfig> config;

  int layer_count() const;
  // Targets are ids below it: a decoder's vocabulary, an MLP's classes.
  int classes() const;
  // Tokens of a sample at most; 1 of an MLP.
  int64_t max_seq() const { return decoder() != nullptr ? decoder()->max_seq : 1; }
  // Tokens of a sample where nobody says how many: as many as it takes, but no more than memory and
  // time usually allow.
  int64_t usual_seq() const { return std::min<int64_t>(max_seq(), 4096); }
  // Of a sample for which `asked` tokens were asked for; 0: nobody has. An MLP takes no tokens.
  int64_t seq_or_usual(int64_t asked) const {
    return decoder() != nullptr && asked > 0 ? asked : usual_seq();
  }
  // DecoderConfig::head_rows; 0 of an MLP.
  int64_t head_rows() const { return decoder() != nullptr ? decoder()->head_rows : 0; }
  const DecoderConfig* decoder() const { return std::get_if<DecoderConfig>(&config); }
  const MlpConfig* mlp() const { return std::get_if<MlpConfig>(&config); }
};

// Whether both have the same weights and compute the same of them, but for the order of sums: no
// config.json says DecoderConfig::head_rows.
bool SameArchitecture(const ModelSpec& a, const ModelSpec& b);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_MODEL_SPEC_H_
