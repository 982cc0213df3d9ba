#ifndef SLUICE_MODELS_LAYERS_DECODER_NAMES_H_
#define SLUICE_MODELS_LAYERS_DECODER_NAMES_H_

#include <cstdint>
#include <string>

#include "models/spec/decoder.h"

namespace sluice {

// How Hugging Face names a decoder's parameters. Those of maps and norms lack the ".weight" or
// ".bias" at their end; an empty name means that the family has no such thing.

// Of what is outside of the blocks; tables are whole names.
struct DecoderNames {
  const char* token_table = "";
  const char* position_table = "";
  const char* final_norm = "";
  const char* head_table = "";
};

// Of block `b`, from the model's name for it on: "model.layers.3.self_attn.q_proj".
struct BlockNames {
  std::string attention_norm, after_attention_norm;
  std::string fused_map;  // queries, keys and values of one map, stored [in, out]
  std::string query_map, key_map, value_map, query_norm, key_norm, output_map;
  std::string mlp_norm, after_mlp_norm;
  std::string gate_map, up_map, down_map;
};

// Whether its parameters are GPT-2's: maps stored [in, out], one of them for queries, keys and
// values. All other families store them [out, in], as Llama does.
bool HasGpt2Parameters(const DecoderConfig& config);

DecoderNames NamesOf(const DecoderConfig& config);
BlockNames NamesOfBlock(const DecoderConfig& config, int64_t block);

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_DECODER_NAMES_H_
