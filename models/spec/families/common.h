#ifndef SLUICE_MODELS_SPEC_FAMILIES_COMMON_H_
#define SLUICE_MODELS_SPEC_FAMILIES_COMMON_H_

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/functional/function_ref.h"
#include "models/spec/decoder.h"
#include "models/spec/fields.h"

// What the families after GPT-2 name alike in config.json, with what each takes where a field is
// left out: the defaults of transformers 5.23.
namespace sluice {

// So wide that no real model meets them, so narrow that no count of parameters overflows 64 bits.
inline constexpr int64_t kMostLayers = 1 << 12;
inline constexpr int64_t kWidest = 1 << 18;
inline constexpr int64_t kMostIds = 1 << 24;

// What a block sees, in "layer_types" and in Gemma 3's "rope_parameters": all tokens, or a window.
inline constexpr char kGlobalAttention[] = "full_attention";
inline constexpr char kLocalAttention[] = "sliding_attention";

struct FamilyDefaults {
  int64_t heads = 0;     // 0: must be said, as the two below
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: dim / heads
  int64_t vocab = 0;
  int64_t max_seq = 0;
  float norm_epsilon = 1e-6f;
  bool tied_head = false;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
  bool gelu_is_tanh = false;  // what is called "gelu" means the tanh form
};

// All heads together are a width as well.
void CheckAllHeads(FieldReader& reader, const char* field, int64_t heads, int64_t head_dim);

// A count that is `otherwise` where the field is left out, and 0, for none, where it is null.
void CountOrNone(FieldReader& reader, const char* field, int64_t low, int64_t high,
                 int64_t otherwise, int64_t* value);

// Starts `config` as LlamaDecoder() and reads sizes, norms, the activation and the head.
void ReadCommon(FieldReader& reader, const FamilyDefaults& defaults, DecoderConfig* config);
nlohmann::ordered_json& WriteCommon(const DecoderConfig& config, const FamilyDefaults& defaults,
                                    nlohmann::ordered_json* json);

// "attention_bias", of all four maps.
void ReadAttentionBias(FieldReader& reader, DecoderConfig* config);

// Rotary positions: transformers 5's "rope_parameters", or "rope_scaling" beside "rope_theta". What
// has no scaling that RopeScaling names is refused.
void ReadRope(FieldReader& reader, double theta, DecoderConfig* config);
// Gemma 3's: one in the blocks that see all, and another one in those with a window.
void ReadRopesOfGemma3(FieldReader& reader, DecoderConfig* config);
nlohmann::ordered_json RopeJson(const Rope& rope);

// "sliding_window"; `otherwise` where it is left out, all tokens where it is null.
void ReadWindow(FieldReader& reader, int64_t otherwise, DecoderConfig* config);
// Which blocks have the window: "layer_types", or where that is left out, all but those of which
// `sees_all` holds. A window that no block has becomes none.
void ReadLayerTypes(FieldReader& reader, absl::FunctionRef<bool(int64_t block)> sees_all,
                    DecoderConfig* config);
nlohmann::ordered_json LayerTypesJson(const DecoderConfig& config);

// null for 0.
nlohmann::ordered_json NumberOrNull(int64_t value);
// The shortest decimal that reads back as `value`: 1e-05, where a plain cast would print
// 9.999999747378752e-06.
double ShortestDecimal(float value);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FAMILIES_COMMON_H_
