#include "pipeline/checkpoint/files/peft_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {
namespace {

constexpr int kIndent = 2;

// The modules, "model.layers.0.self_attn.q_proj", that `names` of PEFT's tensors belong to; names
// of other tensors are left out.
std::set<std::string> ModulesOf(const std::vector<std::string>& names) {
  std::set<std::string> modules;
  for (const std::string& name : names) {
    if (!IsAdapter(name)) continue;
    absl::string_view module = name;
    absl::ConsumePrefix(&module, kAdapterPrefix);
    modules.emplace(module.substr(0, module.rfind(".lora_")));
  }
  return modules;
}

constexpr char kAllLinear[] = "all-linear";
constexpr int64_t kMostRank = 65536;

// Fields that change what an adapter computes, beside those that are read: not built but where they
// are null, false, or empty.
constexpr const char* kNotBuilt[] = {"use_dora",
                                     "modules_to_save",
                                     "rank_pattern",
                                     "alpha_pattern",
                                     "lora_bias",
                                     "layer_replication",
                                     "layers_to_transform",
                                     "layers_pattern",
                                     "megatron_config",
                                     "eva_config",
                                     "corda_config",
                                     "use_qalora",
                                     "alora_invocation_tokens",
                                     "trainable_token_indices",
                                     "target_parameters",
                                     "exclude_modules",
                                     "arrow_config",
                                     "ensure_weight_tying",
                                     "use_bdlora",
                                     "kasa_config",
                                     "monteclora_config",
                                     "velora_config"};

bool IsEmptyText(const nlohmann::json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

bool IsOff(const nlohmann::json& value) {
  return value.is_null() || value == false || IsEmptyText(value) ||
         ((value.is_object() || value.is_array()) && value.empty());
}

// Reads the fields of one file.
class PeftReader {
 public:
  PeftReader(const nlohmann::json& json, const std::string& file) : json_(json), file_(file) {}

  absl::StatusOr<Lora> Read(const std::vector<std::string>& names) const {
    absl::Status status = CheckKind();
    Lora lora;
    if (status.ok()) status = ReadNumbers(&lora);
    if (status.ok()) status = ReadTargets(names, &lora);
    if (!status.ok()) return status;
    return lora;
  }

 private:
  absl::Status Wrong(absl::string_view field, absl::string_view expected) const {
    const auto found = json_.find(std::string(field));
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": field '", field, "' is ",
                     found == json_.end() ? "missing" : ShowJson(*found), "; expected ", expected));
  }

  nlohmann::json Get(const char* field) const { return json_.value(field, nlohmann::json()); }

  absl::Status CheckKind() const {
    if (Get("peft_type") != "LORA") return Wrong("peft_type", "\"LORA\"");
    for (const char* field : kNotBuilt) {
      if (!IsOff(Get(field))) return Wrong(field, "none: adapters with it are not built");
    }
    const nlohmann::json bias = Get("bias");
    if (!bias.is_null() && bias != "none") return Wrong("bias", "\"none\"; biases are not adapted");
    // Other ways to begin change the base model's weights too: PiSSA, OLoRA, LoftQ.
    const nlohmann::json init = Get("init_lora_weights");
    const bool plain = init.is_null() || init.is_boolean() || init == "gaussian" ||
                       init == "orthogonal" || init == "eva";
    if (!plain) return Wrong("init_lora_weights", "true, false, or one that keeps the base model");
    return absl::OkStatus();
  }

  absl::Status ReadNumbers(Lora* lora) const {
    const nlohmann::json rank = Get("r"), alpha = Get("lora_alpha"), dropout = Get("lora_dropout");
    // An unsigned value above the greatest int64_t would turn negative, and is refused all the same.
    const bool whole = rank.is_number_integer();
    if (!whole || rank.get<int64_t>() < 1 || rank.get<int64_t>() > kMostRank) {
      return Wrong("r", "a rank from 1 to 65536");
    }
    lora->rank = rank.get<int64_t>();
    if (!alpha.is_number() || !std::isfinite(alpha.get<double>()) || alpha.get<double>() <= 0) {
      return Wrong("lora_alpha", "a number above 0");
    }
    lora->alpha = alpha.get<double>();
    const bool share =
        dropout.is_number() && dropout.get<double>() >= 0 && dropout.get<double>() < 1;
    if (!dropout.is_null() && !share) return Wrong("lora_dropout", "a share from 0 to below 1");
    if (share) lora->dropout = dropout.get<double>();
    const nlohmann::json stable = Get("use_rslora");
    if (!stable.is_null() && !stable.is_boolean()) return Wrong("use_rslora", "true or false");
    lora->rank_stabilised = stable == true;
    return absl::OkStatus();
  }

  absl::Status ReadTargets(const std::vector<std::string>& names, Lora* lora) const {
    constexpr char kExpected[] = "a list of names of maps, \"all-linear\" or a regular expression";
    const nlohmann::json targets = Get("target_modules");
    if (targets == kAllLinear) return absl::OkStatus();
    if (targets.is_string()) {
      const std::set<std::string> modules = ModulesOf(names);
      lora->targets.assign(modules.begin(), modules.end());
      return lora->targets.empty() ? Wrong("target_modules", "one that maps of the adapter match")
                                   : absl::OkStatus();
    }
    if (!targets.is_array() || targets.empty()) return Wrong("target_modules", kExpected);
    for (const nlohmann::json& target : targets) {
      if (!target.is_string() || IsEmptyText(target)) return Wrong("target_modules", kExpected);
      lora->targets.push_back(target.get<std::string>());
    }
    return absl::OkStatus();
  }

  const nlohmann::json& json_;
  const std::string& file_;
};

}  // namespace

std::string PeftConfig(const Lora& lora, const std::vector<std::string>& names, bool transposed,
                       const std::string& base) {
  // The last parts of names say which maps, unless some of those maps are left out.
  const bool some = std::any_of(lora.targets.begin(), lora.targets.end(),
                                [](const auto& target) { return absl::StrContains(target, '.'); });
  std::set<std::string> targets;
  for (const std::string& module : ModulesOf(names))
    targets.insert(some ? module : module.substr(module.rfind('.') + 1));
  const nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path",
       base.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(base)},
      {"r", lora.rank},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"use_rslora", lora.rank_stabilised},
      {"target_modules", targets},
      {"fan_in_fan_out", transposed},
      {"bias", "none"},
      {"inference_mode", true},
  };
  // A path need not be UTF-8, JSON must be.
  return absl::StrCat(JsonText(config, kIndent), "\n");
}

absl::StatusOr<Lora> ParsePeftConfig(absl::string_view text, const std::string& file,
                                     const std::vector<std::string>& names) {
  const absl::StatusOr<nlohmann::json> json =
      ParseJsonObject(text, file, "expected an adapter_config.json of PEFT");
  if (!json.ok()) return json.status();
  return PeftReader(*json, file).Read(names);
}

}  // namespace sluice
