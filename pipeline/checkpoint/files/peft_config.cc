#include "pipeline/checkpoint/files/peft_config.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int kIndent = 2;

// The last parts of the names of the maps: "q_proj" of every
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight".
std::set<std::string> MapsOf(const std::vector<std::string>& names) {
  std::set<std::string> maps;
  for (const std::string& name : names) {
    const size_t end = name.rfind(".lora_");
    if (end == std::string::npos) continue;
    const size_t dot = name.rfind('.', end - 1);
    maps.insert(name.substr(dot + 1, end - dot - 1));
  }
  return maps;
}

}  // namespace

std::string PeftConfig(const Lora& lora, const std::vector<std::string>& names, bool transposed) {
  const nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", nullptr},
      {"r", lora.rank},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", 0.0},
      {"use_rslora", lora.rank_stabilised},
      {"target_modules", MapsOf(names)},
      {"fan_in_fan_out", transposed},
      {"bias", "none"},
      {"inference_mode", true},
  };
  return absl::StrCat(config.dump(kIndent), "\n");
}

}  // namespace sluice
