#ifndef SLUICE_MODELS_SPEC_FAMILIES_FAMILY_H_
#define SLUICE_MODELS_SPEC_FAMILIES_FAMILY_H_

#include <nlohmann/json.hpp>

#include "models/spec/decoder.h"
#include "models/spec/fields.h"

namespace sluice {

// A GPT's model_type and architecture: those of transformers' GPT2LMHeadModel, and sluice's own for
// a GPT with RMS norms, of which transformers would compute layer norms and start biases that are
// not there.
inline constexpr char kGpt2ModelType[] = "gpt2";
inline constexpr char kGpt2Architecture[] = "GPT2LMHeadModel";
inline constexpr char kOwnModelType[] = "sluice_gpt";
inline constexpr char kOwnArchitecture[] = "SluiceGPT";

// A kind of decoder as Hugging Face's config.json describes it.
struct Family {
  const char* model_type;
  const char* architecture;  // transformers' class of the whole model
  // Fills in `config`, whose `family` is set, as far as the reader's status stays OK.
  void (*read)(FieldReader& reader, DecoderConfig* config);
  // Adds the fields that transformers 5.23 reads back to the same model, and `read` to the same
  // config. Null: of a family that is only planned for.
  void (*write)(const DecoderConfig& config, nlohmann::ordered_json* json) = nullptr;
};

// GPT-2 (gpt.cc).
void ReadGpt(FieldReader& reader, DecoderConfig* config);
void WriteGpt(const DecoderConfig& config, nlohmann::ordered_json* json);

// Llama and what varies it (llama.cc).
void ReadLlama(FieldReader& reader, DecoderConfig* config);
void WriteLlama(const DecoderConfig& config, nlohmann::ordered_json* json);
void ReadMistral(FieldReader& reader, DecoderConfig* config);
void WriteMistral(const DecoderConfig& config, nlohmann::ordered_json* json);
void ReadQwen2(FieldReader& reader, DecoderConfig* config);
void WriteQwen2(const DecoderConfig& config, nlohmann::ordered_json* json);
void ReadQwen3(FieldReader& reader, DecoderConfig* config);
void WriteQwen3(const DecoderConfig& config, nlohmann::ordered_json* json);

// Gemma (gemma.cc).
void ReadGemma(FieldReader& reader, DecoderConfig* config);
void WriteGemma(const DecoderConfig& config, nlohmann::ordered_json* json);
void ReadGemma2(FieldReader& reader, DecoderConfig* config);
void WriteGemma2(const DecoderConfig& config, nlohmann::ordered_json* json);
void ReadGemma3(FieldReader& reader, DecoderConfig* config);
void WriteGemma3(const DecoderConfig& config, nlohmann::ordered_json* json);

// Mixtures of experts (experts.cc).
void ReadMixtral(FieldReader& reader, DecoderConfig* config);
void ReadQwen2Moe(FieldReader& reader, DecoderConfig* config);
void ReadQwen3Moe(FieldReader& reader, DecoderConfig* config);
void ReadDeepSeekV2(FieldReader& reader, DecoderConfig* config);
void ReadDeepSeekV3(FieldReader& reader, DecoderConfig* config);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FAMILIES_FAMILY_H_
