#include "models/spec/model_config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/families/families.h"
#include "models/spec/fields.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"
#include "models/spec/validate.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kMlpModelType[] = "mlp";
constexpr int kIndent = 2;
constexpr char kExpected[] = "expected a Hugging Face config.json";
constexpr char kTextPart[] = "text_config";

std::string FamilyNames() {
  return absl::StrJoin(Families(), ", ", [](std::string* out, const Family& family) {
    out->append(family.model_type);
  });
}

// Null where the field is absent.
Json ModelTypeOf(const Json& json) { return json.value("model_type", Json()); }

// Models that also see pictures keep their decoder in a part of its own.
template <typename Value>
bool HasTextPart(const Value& json) {
  return json.value("model_type", Value()) == "gemma3" && json.contains(kTextPart);
}

absl::StatusOr<const Family*> ChooseFamily(const Json& model_type, absl::string_view file,
                                           absl::string_view assume) {
  const Family* family =
      model_type.is_string() ? FindFamily(model_type.get_ref<const std::string&>()) : nullptr;
  if (family != nullptr) return family;
  if (assume.empty()) {
    const std::string found = model_type.is_null()
                                  ? "missing"
                                  : absl::StrCat(ShowJson(model_type), ", which is not known");
    return absl::NotFoundError(
        absl::StrCat(file, ": field 'model_type' is ", found, "; expected ", FamilyNames()));
  }
  family = FindFamily(assume);
  if (family != nullptr) return family;
  return absl::InvalidArgumentError(
      absl::StrCat("--assume ", assume, " is no known family; there are: ", FamilyNames()));
}

absl::StatusOr<MlpConfig> ReadMlp(const Json& json, absl::string_view file) {
  const Json widths = json.value("widths", Json());
  const auto is_width = [](const Json& width) {
    return width.is_number_unsigned() &&
           width.get<uint64_t>() <= uint64_t{std::numeric_limits<int>::max()};
  };
  if (!widths.is_array() || !std::all_of(widths.begin(), widths.end(), is_width)) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": field 'widths' is ", ShowJson(widths),
                                                   "; expected a list of whole numbers"));
  }
  return MlpConfig{.widths = widths.get<std::vector<int>>()};
}

absl::StatusOr<DecoderConfig> ReadDecoder(Json json, absl::string_view file,
                                          absl::string_view assume) {
  Json model_type = ModelTypeOf(json);
  if (HasTextPart(json)) {
    Json text = std::move(json[kTextPart]);
    json = std::move(text);
    model_type = "gemma3_text";
    if (!json.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": field '", kTextPart, "' is not an object"));
    }
  }
  const absl::StatusOr<const Family*> family = ChooseFamily(model_type, file, assume);
  if (!family.ok()) return family.status();
  FieldReader reader(json, file, (*family)->model_type);
  DecoderConfig config;
  config.family = (*family)->model_type;
  (*family)->read(reader, &config);
  if (!reader.status().ok()) return reader.status();
  return config;
}

// Sluice's own of a GPT whose norms GPT-2 does not have.
const Family& FamilyOf(const DecoderConfig& config) {
  const bool own = config.family == kGpt2ModelType && config.norm != NormKind::kLayer;
  return *FindFamily(own ? kOwnModelType : config.family);
}

OrderedJson SpecJson(const ModelSpec& spec) {
  if (spec.mlp() != nullptr) {
    return {{"model_type", kMlpModelType}, {"widths", spec.mlp()->widths}};
  }
  const Family& family = FamilyOf(*spec.decoder());
  OrderedJson json;
  json["architectures"] = {family.architecture};
  json["model_type"] = family.model_type;
  family.write(*spec.decoder(), &json);
  return json;
}

// Makes the fields of `json`, which describe `before`, describe `after`.
void ChangeFields(const ModelSpec& before, const ModelSpec& after, OrderedJson* json) {
  const OrderedJson old = SpecJson(before), now = SpecJson(after);
  for (const auto& [field, value] : now.items()) {
    if (old.value(field, OrderedJson()) == value) continue;
    (*json)[field] = value;
    // The older fields of what stands together now, and what goes before them.
    if (field != "rope_parameters") continue;
    json->erase("rope_scaling");
    json->erase("original_max_position_embeddings");
  }
}

// The decoder of a model that also sees pictures, as a model by itself: transformers would look for
// the weights of both in a folder that says otherwise, and make up all of them.
OrderedJson TextPartOf(const OrderedJson& document) {
  OrderedJson text = document[kTextPart];
  const Family& family = *FindFamily("gemma3_text");
  text["architectures"] = {family.architecture};
  text["model_type"] = family.model_type;
  for (const char* field :
       {"bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype"}) {
    if (!text.contains(field) && document.contains(field)) text[field] = document[field];
  }
  return text;
}

void SaySavedInFp32(OrderedJson* json) {
  for (const char* field : {"dtype", "torch_dtype"}) {  // the second before transformers 4.56
    if (json->contains(field)) (*json)[field] = "float32";
  }
}

}  // namespace

absl::StatusOr<ModelSpec> ParseModelConfig(absl::string_view json, absl::string_view file,
                                           absl::string_view assume) {
  absl::StatusOr<Json> document = ParseJsonObject(json, file, kExpected);
  if (!document.ok()) return document.status();
  ModelSpec spec = {.name = std::string(file), .config = {}};
  if (ModelTypeOf(*document) == kMlpModelType) {
    absl::StatusOr<MlpConfig> config = ReadMlp(*document, file);
    if (!config.ok()) return config.status();
    spec.config = *std::move(config);
  } else {
    absl::StatusOr<DecoderConfig> config = ReadDecoder(*std::move(document), file, assume);
    if (!config.ok()) return config.status();
    spec.config = *std::move(config);
  }
  if (absl::Status status = ValidateSpec(spec); !status.ok()) return status;
  return spec;
}

bool CanFormat(const ModelSpec& spec) {
  return spec.mlp() != nullptr || FamilyOf(*spec.decoder()).write != nullptr;
}

std::string FormatModelConfig(const ModelSpec& spec) {
  return JsonText(SpecJson(spec), kIndent) + "\n";
}

absl::StatusOr<std::string> PatchModelConfig(absl::string_view json, absl::string_view file,
                                             const ModelSpec& spec) {
  const absl::StatusOr<ModelSpec> before = ParseModelConfig(json, file);
  if (!before.ok()) return before.status();
  absl::StatusOr<OrderedJson> document = ParseOrderedJsonObject(json, file, kExpected);
  if (!document.ok()) return document.status();
  const OrderedJson given = *document;
  if (HasTextPart(*document)) *document = TextPartOf(given);
  if (!SameArchitecture(*before, spec) && CanFormat(*before) && CanFormat(spec)) {
    ChangeFields(*before, spec, &*document);
  }
  SaySavedInFp32(&*document);
  if (*document == given && SameArchitecture(*before, spec)) return std::string(json);
  std::string text =
      document->dump(kIndent, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace) +
      "\n";
  const absl::StatusOr<ModelSpec> after = ParseModelConfig(text, file);
  if (after.ok() && SameArchitecture(*after, spec)) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": describes another model than '", spec.name,
                   "'; expected the config.json that the model was read from"));
}

}  // namespace sluice
