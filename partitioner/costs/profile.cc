#include "partitioner/costs/profile.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/json_text.h"
#include "partitioner/costs/json_fields.h"
#include "partitioner/costs/link_limits.h"
#include "partitioner/costs/model_json.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "sluice profile";
constexpr int64_t kVersion = 1;

void PutTiming(const char* name, const Timing& timing, Json* json) {
  (*json)[absl::StrCat(name, "_seconds")] = timing.median;
  (*json)[absl::StrCat(name, "_seconds_min")] = timing.least;
}

Json LayerJson(const LayerCost& layer, const LayerTimings& timings) {
  Json json = {{"name", layer.name}};
  PutTiming("forward", timings.forward, &json);
  PutTiming("input_grad", timings.input_grad, &json);
  PutTiming("weight_grad", timings.weight_grad, &json);
  PutTiming("apart_input_grad", timings.apart_input_grad, &json);
  PutTiming("apart_weight_grad", timings.apart_weight_grad, &json);
  PutTiming("restore", timings.restore, &json);
  PutTiming("update", timings.update, &json);
  if (timings.tied_update.median > 0) PutTiming("tied_update", timings.tied_update, &json);
  if (timings.tied_sum.median > 0) PutTiming("tied_sum", timings.tied_sum, &json);
  json["parameters"] = layer.parameters;
  if (layer.split_parameters > 0) json["split_parameters"] = layer.split_parameters;
  json["parameter_bytes"] = layer.parameter_bytes;
  if (layer.tied_bytes > 0) {
    json["tied_bytes"] = layer.tied_bytes;
    json["tied_state_bytes"] = layer.tied_state_bytes;
  }
  if (layer.tied_gradient_bytes > 0) json["tied_gradient_bytes"] = layer.tied_gradient_bytes;
  json["saved_bytes"] = {{"none", layer.saved_bytes[0]},
                         {"selective", layer.saved_bytes[1]},
                         {"full", layer.saved_bytes[2]}};
  json["weight_grad_bytes"] = layer.weight_grad_bytes;
  json["output_bytes"] = layer.output_bytes;
  json["workspace_bytes"] = layer.workspace_bytes;
  json["forward_workspace_bytes"] = layer.forward_workspace_bytes;
  return json;
}

// So wide that nothing measured meets them, so narrow that sums over layers stay within 64 bits,
// and those of seconds finite.
constexpr int64_t kMostBytes = int64_t{1} << 46;
constexpr int64_t kMostSamples = int64_t{1} << 20;
constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr double kMostSeconds = 1e9;

int64_t ReadCount(const char* field, int64_t least, int64_t most, JsonFields* fields) {
  const int64_t count = fields->Integer(field, least);
  if (count <= most) return count;
  fields->Fail(field, absl::StrCat("is ", count, "; expected at most ", most));
  return least;
}

double ReadSeconds(const std::string& field, JsonFields* fields) {
  const double seconds = fields->Number(field.c_str());
  if (seconds <= kMostSeconds) return seconds;
  fields->Fail(field.c_str(), absl::StrCat("is ", seconds, "; expected at most ", kMostSeconds));
  return 0;
}

Timing ReadTiming(const std::string& name, JsonFields* fields) {
  Timing timing;
  timing.median = ReadSeconds(name + "_seconds", fields);
  timing.least = ReadSeconds(name + "_seconds_min", fields);
  return timing;
}

void ReadLayer(const nlohmann::json& json, const std::string& file, const std::string& path,
               JsonFields* document, Profile* profile) {
  JsonFields fields(json, file, path);
  LayerTimings timings;
  timings.forward = ReadTiming("forward", &fields);
  timings.input_grad = ReadTiming("input_grad", &fields);
  timings.weight_grad = ReadTiming("weight_grad", &fields);
  timings.restore = ReadTiming("restore", &fields);
  if (fields.Has("apart_input_grad_seconds")) {
    timings.apart_input_grad = ReadTiming("apart_input_grad", &fields);
    timings.apart_weight_grad = ReadTiming("apart_weight_grad", &fields);
  }
  if (fields.Has("update_seconds")) timings.update = ReadTiming("update", &fields);
  if (fields.Has("tied_update_seconds")) timings.tied_update = ReadTiming("tied_update", &fields);
  if (fields.Has("tied_sum_seconds")) timings.tied_sum = ReadTiming("tied_sum", &fields);
  if (timings.tied_update.median > timings.update.median) {
    fields.Fail("tied_update_seconds",
                absl::StrCat("is ", timings.tied_update.median,
                             "; expected at most update_seconds, ", timings.update.median));
  }
  LayerCost layer;
  layer.name = fields.String("name");
  TakeMedians(timings, &layer);
  layer.parameters = ReadCount("parameters", 0, kMostBytes, &fields);
  if (fields.Has("split_parameters"))
    layer.split_parameters = ReadCount("split_parameters", 0, layer.parameters, &fields);
  layer.parameter_bytes = ReadCount("parameter_bytes", 0, kMostBytes, &fields);
  if (fields.Has("tied_bytes")) {
    layer.tied_bytes = ReadCount("tied_bytes", 0, layer.parameter_bytes, &fields);
    layer.tied_state_bytes = ReadCount("tied_state_bytes", 0, layer.tied_bytes, &fields);
  }
  if (fields.Has("tied_gradient_bytes"))
    layer.tied_gradient_bytes = ReadCount("tied_gradient_bytes", 0, kMostBytes, &fields);
  layer.weight_grad_bytes = ReadCount("weight_grad_bytes", 0, kMostBytes, &fields);
  layer.output_bytes = ReadCount("output_bytes", 0, kMostBytes, &fields);
  layer.workspace_bytes = ReadCount("workspace_bytes", 0, kMostBytes, &fields);
  layer.forward_workspace_bytes =
      fields.Has("forward_workspace_bytes")
          ? ReadCount("forward_workspace_bytes", 0, layer.workspace_bytes, &fields)
          : layer.workspace_bytes;
  const auto saved = json.find("saved_bytes");
  if (saved == json.end() || !saved->is_object()) {
    fields.Fail("saved_bytes", "must be an object with none, selective and full");
  } else {
    JsonFields policies(*saved, file, path + ".saved_bytes");
    layer.saved_bytes = {ReadCount("none", 0, kMostBytes, &policies),
                         ReadCount("selective", 0, kMostBytes, &policies),
                         ReadCount("full", 0, kMostBytes, &policies)};
    fields.Merge(policies.status());
  }
  document->Merge(fields.status());
  profile->layers.push_back(std::move(layer));
  profile->timings.push_back(timings);
}

Link ReadLink(JsonFields* fields) {
  Link link;
  link.latency = fields->Number("link_latency", 0, kMostLatency);
  // JSON has no infinity: a transport that hands buffers over has no bandwidth to state.
  if (fields->Has("link_bandwidth"))
    link.bandwidth = fields->Number("link_bandwidth", kLeastBandwidth);
  return link;
}

}  // namespace

void TakeMedians(const LayerTimings& timings, LayerCost* layer) {
  layer->forward_seconds = timings.forward.median;
  layer->input_grad_seconds = timings.input_grad.median;
  layer->weight_grad_seconds = timings.weight_grad.median;
  layer->apart_input_grad_seconds = timings.apart_input_grad.median;
  layer->apart_weight_grad_seconds = timings.apart_weight_grad.median;
  layer->restore_seconds = timings.restore.median;
  layer->update_seconds = timings.update.median;
  layer->tied_update_seconds = timings.tied_update.median;
  layer->tied_sum_seconds = timings.tied_sum.median;
}

std::string FormatProfile(const Profile& profile) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"model", profile.model},
               {"device", profile.device},
               {"micro_batch_size", profile.micro_batch_size},
               {"seq", profile.seq},
               {"dtype", DTypeName(profile.dtype)},
               {"repetitions", profile.repetitions},
               {"link_latency", profile.link.latency}};
  if (const std::string trained = profile.adaptation.ToString(); !trained.empty())
    json["adaptation"] = trained;
  if (profile.optimizer) json["optimizer"] = OptimizerName(*profile.optimizer);
  AddAttention(profile.attention, &json);
  if (std::isfinite(profile.link.bandwidth)) json["link_bandwidth"] = profile.link.bandwidth;
  if (profile.spec) json["model_config"] = ModelToJson(*profile.spec);
  json["layers"] = Json::array();
  for (size_t i = 0; i < profile.layers.size(); ++i) {
    json["layers"].push_back(LayerJson(profile.layers[i], profile.timings[i]));
  }
  return JsonText(json, 2) + "\n";
}

absl::StatusOr<Profile> ParseProfile(absl::string_view json, absl::string_view file) {
  const absl::StatusOr<nlohmann::json> object = JsonFields::ParseObject(json, file);
  if (!object.ok()) return object.status();
  const std::string name(file);
  JsonFields fields(*object, name, "");
  Profile profile;
  if (fields.String("format") != kFormat) {
    fields.Fail("format", absl::StrCat("must be '", kFormat, "'"));
  }
  if (fields.Integer("version") != kVersion) {
    fields.Fail("version", absl::StrCat("must be ", kVersion, "; write the profile again"));
  }
  profile.model = fields.String("model");
  profile.device = fields.String("device");
  profile.micro_batch_size = ReadCount("micro_batch_size", 1, kMostSamples, &fields);
  profile.seq = ReadCount("seq", 1, kMostTokens, &fields);
  const std::string dtype = fields.String("dtype");
  if (!ParseDType(dtype, &profile.dtype)) {
    fields.Fail("dtype", absl::StrCat("is '", dtype, "'; expected fp32 or bf16"));
  }
  if (fields.Has("adaptation")) {
    absl::StatusOr<Adaptation> trained = ParseAdaptation(fields.String("adaptation"));
    if (trained.ok()) {
      profile.adaptation = *std::move(trained);
    } else {
      fields.Fail("adaptation", std::string(trained.status().message()));
    }
  }
  if (fields.Has("optimizer")) {
    const std::string optimizer = fields.String("optimizer");
    profile.optimizer = ParseOptimizer(optimizer);
    if (!profile.optimizer) {
      fields.Fail("optimizer", absl::StrCat("is '", optimizer, "'; expected adamw or sgd"));
    }
  }
  profile.attention = ReadAttention(&fields);
  profile.repetitions = static_cast<int>(ReadCount("repetitions", 1, kMostRepetitions, &fields));
  profile.link = ReadLink(&fields);
  if (const nlohmann::json* layers = fields.Objects("layers"); layers != nullptr) {
    for (size_t i = 0; i < layers->size(); ++i) {
      ReadLayer((*layers)[i], name, absl::StrCat("layers[", i, "]"), &fields, &profile);
    }
  }
  if (!fields.status().ok()) return fields.status();
  if (!object->contains("model_config")) return profile;
  absl::StatusOr<ModelSpec> spec = ModelFromJson((*object)["model_config"], profile.model, name);
  if (!spec.ok()) return spec.status();
  if (spec->layer_count() != static_cast<int>(profile.layers.size())) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": field 'layers' has ",
                                                   profile.layers.size(), " entries, the model ",
                                                   spec->layer_count(), " layers"));
  }
  profile.spec = *std::move(spec);
  return profile;
}

bool IsProfile(absl::string_view json) {
  const absl::StatusOr<nlohmann::json> document = JsonFields::ParseObject(json, "");
  return document.ok() && document->contains("format") && (*document)["format"] == kFormat;
}

}  // namespace sluice
