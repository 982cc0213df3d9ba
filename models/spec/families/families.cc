#include "models/spec/families/families.h"

namespace sluice {
namespace {

constexpr Family kFamilies[] = {
    {kGpt2ModelType, kGpt2Architecture, ReadGpt, WriteGpt},
    {kOwnModelType, kOwnArchitecture, ReadGpt, WriteGpt},
    {"llama", "LlamaForCausalLM", ReadLlama, WriteLlama},
    {"mistral", "MistralForCausalLM", ReadMistral, WriteMistral},
    {"mixtral", "MixtralForCausalLM", ReadMixtral},
    {"qwen2", "Qwen2ForCausalLM", ReadQwen2, WriteQwen2},
    {"qwen3", "Qwen3ForCausalLM", ReadQwen3, WriteQwen3},
    {"qwen2_moe", "Qwen2MoeForCausalLM", ReadQwen2Moe},
    {"qwen3_moe", "Qwen3MoeForCausalLM", ReadQwen3Moe},
    {"deepseek_v2", "DeepseekV2ForCausalLM", ReadDeepSeekV2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", ReadDeepSeekV3},
    {"gemma", "GemmaForCausalLM", ReadGemma, WriteGemma},
    {"gemma2", "Gemma2ForCausalLM", ReadGemma2, WriteGemma2},
    {"gemma3_text", "Gemma3ForCausalLM", ReadGemma3, WriteGemma3},
};

}  // namespace

absl::Span<const Family> Families() { return kFamilies; }

const Family* FindFamily(absl::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

}  // namespace sluice
