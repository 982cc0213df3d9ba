#include "partitioner/costs/model_json.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/families/family.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"
#include "models/spec/model_config.h"
#include "models/spec/validate.h"
#include "partitioner/costs/json_fields.h"

namespace sluice {
namespace {

constexpr char kDecoder[] = "decoder";

// A whole number of 32 bits, of at least 1.
int64_t ReadInt(JsonFields* fields, const char* field) {
  const int64_t value = fields->Integer(field, 1);
  if (value <= std::numeric_limits<int>::max()) return value;
  fields->Fail(field, absl::StrCat("is ", value, ", which is too large"));
  return 0;
}

NormKind ReadNorm(JsonFields* fields) {
  const std::string name = fields->String("norm");
  const std::optional<NormKind> norm = ParseNorm(name);
  if (!norm) fields->Fail("norm", absl::StrCat("is '", name, "'; expected layer or rms"));
  return norm.value_or(NormKind::kLayer);
}

DecoderConfig ReadGpt(JsonFields* fields) {
  DecoderConfig config;
  config.layers = ReadInt(fields, "layers");
  config.dim = ReadInt(fields, "dim");
  config.heads = ReadInt(fields, "heads");
  config.vocab = ReadInt(fields, "vocab");
  config.max_seq = ReadInt(fields, "max_seq");
  config.hidden = ReadInt(fields, "hidden");
  config.tied_head = fields->Bool("tied_head");
  config.norm_epsilon = static_cast<float>(fields->Number("norm_epsilon"));
  if (fields->Has("norm")) config.norm = ReadNorm(fields);
  if (fields->Has("initializer_range")) {
    config.initializer_range = static_cast<float>(fields->Number("initializer_range"));
  }
  if (fields->Has("head_rows")) config.head_rows = ReadInt(fields, "head_rows");
  return config;
}

// Any other decoder, in the fields of its own config.json.
absl::StatusOr<ModelSpec> ReadDecoder(const nlohmann::json& json, const std::string& name,
                                      const std::string& file, JsonFields* fields) {
  const nlohmann::json config = json.value("config", nlohmann::json());
  absl::StatusOr<ModelSpec> spec =
      ParseModelConfig(JsonText(config), absl::StrCat(file, ": model_config.config"));
  if (!spec.ok()) return absl::InvalidArgumentError(spec.status().message());
  if (spec->decoder() == nullptr || !CanFormat(*spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": field 'model_config.config.model_type' is ", ShowJson(config["model_type"]),
        "; expected a decoder of a family that trains"));
  }
  if (fields->Has("head_rows")) {
    std::get<DecoderConfig>(spec->config).head_rows = ReadInt(fields, "head_rows");
    if (!fields->status().ok()) return fields->status();
  }
  spec->name = name;
  return spec;
}

// Files are as they were before there was a choice.
void AddHeadRows(const DecoderConfig& config, nlohmann::ordered_json* json) {
  if (config.head_rows > 0) (*json)["head_rows"] = config.head_rows;
}

nlohmann::ordered_json DecoderJson(const ModelSpec& spec) {
  nlohmann::ordered_json json = {
      {"type", kDecoder},
      {"config", *ParseOrderedJsonObject(FormatModelConfig(spec), spec.name, "")}};
  AddHeadRows(*spec.decoder(), &json);
  return json;
}

MlpConfig ReadMlp(const nlohmann::json& json, JsonFields* fields) {
  MlpConfig config;
  config.widths.clear();
  const auto widths = json.find("widths");
  bool good = widths != json.end() && widths->is_array();
  if (good) {
    for (const nlohmann::json& width : *widths) {
      good = good && width.is_number_integer() && width.get<int64_t>() > 0 &&
             width.get<int64_t>() <= std::numeric_limits<int>::max();
      if (good) config.widths.push_back(width.get<int>());
    }
  }
  if (!good) fields->Fail("widths", "must be an array of whole numbers above 0");
  return config;
}

}  // namespace

nlohmann::ordered_json ModelToJson(const ModelSpec& spec) {
  if (const MlpConfig* mlp = spec.mlp()) return {{"type", "mlp"}, {"widths", mlp->widths}};
  const DecoderConfig& gpt = *spec.decoder();
  if (gpt.family != kGpt2ModelType) return DecoderJson(spec);
  nlohmann::ordered_json json = {{"type", "gpt"},
                                 {"layers", gpt.layers},
                                 {"dim", gpt.dim},
                                 {"heads", gpt.heads},
                                 {"vocab", gpt.vocab},
                                 {"max_seq", gpt.max_seq},
                                 {"hidden", gpt.mlp_width()},
                                 {"tied_head", gpt.tied_head},
                                 {"norm_epsilon", gpt.norm_epsilon}};
  // Files are as they were before there was a choice.
  if (gpt.norm != NormKind::kLayer) json["norm"] = NormName(gpt.norm);
  if (gpt.initializer_range != DecoderConfig{}.initializer_range) {
    json["initializer_range"] = gpt.initializer_range;
  }
  AddHeadRows(gpt, &json);
  return json;
}

absl::StatusOr<ModelSpec> ModelFromJson(const nlohmann::json& json, const std::string& name,
                                        const std::string& file) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": field 'model_config' must be an object"));
  }
  JsonFields fields(json, file, "model_config");
  const std::string type = fields.String("type");
  if (type == kDecoder) return ReadDecoder(json, name, file, &fields);
  ModelSpec spec;
  spec.name = name;
  if (type == "mlp") {
    spec.config = ReadMlp(json, &fields);
  } else if (type == "gpt") {
    spec.config = ReadGpt(&fields);
  } else {
    fields.Fail("type", absl::StrCat("is '", type, "'; expected gpt, decoder or mlp"));
  }
  if (!fields.status().ok()) return fields.status();
  if (absl::Status status = ValidateSpec(spec); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": model_config: ", status.message()));
  }
  return spec;
}

void AddAttention(CudaAttention attention, nlohmann::ordered_json* json) {
  if (attention != CudaAttention::kSluice) (*json)["attention"] = CudaAttentionName(attention);
}

CudaAttention ReadAttention(JsonFields* fields) {
  if (!fields->Has("attention")) return CudaAttention::kSluice;
  const std::string name = fields->String("attention");
  const std::optional<CudaAttention> attention = ParseCudaAttention(name);
  if (!attention)
    fields->Fail("attention", absl::StrCat("is '", name, "'; expected sluice or cudnn"));
  return attention.value_or(CudaAttention::kSluice);
}

}  // namespace sluice
