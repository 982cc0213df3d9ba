#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/spec/families/common.h"

namespace sluice {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Far beyond what any model has; all results of rope.h are finite within them.
constexpr double kLeastTheta = 2, kMostTheta = 1e18;
constexpr double kSmallest = 1e-6, kLargest = 1e6;

void ReadLlama3(FieldReader& reader, Rope* rope) {
  double& low = rope->low_frequency_factor;
  reader.Number("low_freq_factor", kSmallest, kLargest / 2, &low);
  reader.Number("high_freq_factor", kSmallest, kLargest, &rope->high_frequency_factor);
  if (rope->high_frequency_factor <= low) {
    reader.Fail("high_freq_factor", "more than low_freq_factor");
  }
}

void ReadYarn(FieldReader& reader, Rope* rope) {
  reader.OptionalNumber("beta_fast", kSmallest, kLargest, &rope->beta_fast);
  reader.OptionalNumber("beta_slow", kSmallest, kLargest, &rope->beta_slow);
  reader.OptionalNumber("attention_factor", kSmallest, kLargest, &rope->attention_factor);
  reader.OptionalNumber("mscale", 0, kLargest, &rope->mscale);
  reader.OptionalNumber("mscale_all_dim", 0, kLargest, &rope->mscale_all_dim);
  reader.OptionalBool("truncate", &rope->truncate);
  if (rope->beta_fast < rope->beta_slow) reader.Fail("beta_fast", "at least beta_slow");
}

// "rope_type", which was called "type" before.
RopeScaling ReadScaling(FieldReader& reader) {
  const char* field = reader.Has("rope_type") ? "rope_type" : "type";
  std::string name = RopeScalingName(RopeScaling::kNone);
  reader.OptionalString(field, &name);
  const std::optional<RopeScaling> scaling = ParseRopeScaling(name);
  if (!scaling) reader.Fail(field, R"("default", "linear", "llama3" or "yarn")");
  return scaling.value_or(RopeScaling::kNone);
}

// What turns a part of a head only, sections of it apart, or each kind of block in its own way.
void RefuseOtherRotations(FieldReader& reader) {
  reader.OneOf("partial_rotary_factor", {1});
  for (const char* other : {"mrope_section", kGlobalAttention, kLocalAttention}) {
    if (reader.Has(other)) reader.Fail(other, "a model without it");
  }
}

// The fields of one rotation; `rope->theta` stays where they do not say one.
void ReadRotation(FieldReader& reader, int64_t max_seq, Rope* rope) {
  RefuseOtherRotations(reader);
  reader.OptionalNumber("rope_theta", kLeastTheta, kMostTheta, &rope->theta);
  rope->scaling = ReadScaling(reader);
  if (rope->scaling == RopeScaling::kNone) return;
  reader.Number("factor", 1, kLargest, &rope->factor);
  if (rope->scaling == RopeScaling::kLinear) return;
  rope->original_max_seq = max_seq;
  reader.OptionalCount("original_max_position_embeddings", 1, kMostIds, &rope->original_max_seq);
  if (rope->scaling == RopeScaling::kYarn) {
    ReadYarn(reader, rope);
  } else {
    ReadLlama3(reader, rope);
  }
}

}  // namespace

void ReadRope(FieldReader& reader, double theta, DecoderConfig* config) {
  Rope& rope = config->rope;
  rope.theta = theta;
  reader.OneOf("partial_rotary_factor", {1});
  reader.OptionalNumber("rope_theta", kLeastTheta, kMostTheta, &rope.theta);
  // transformers takes the older field where a file has both.
  const char* field = reader.HasFields("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!reader.Has(field)) return;
  reader.Within(field, [&](FieldReader& part) { ReadRotation(part, config->max_seq, &rope); });
  // It takes the number beside the rotation before that within, too.
  if (rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kYarn) {
    reader.OptionalCount("original_max_position_embeddings", 1, kMostIds, &rope.original_max_seq);
  }
}

// Gemma3TextConfig.convert_rope_params_to_dict of transformers 5.23.
void ReadRopesOfGemma3(FieldReader& reader, DecoderConfig* config) {
  config->rope.theta = 1e6;
  Rope local;
  reader.OptionalNumber("rope_theta", kLeastTheta, kMostTheta, &config->rope.theta);
  reader.OptionalNumber("rope_local_base_freq", kLeastTheta, kMostTheta, &local.theta);
  const auto read = [&](FieldReader& from, const char* field, Rope* rope) {
    if (!from.Has(field)) return;
    from.Within(field, [&](FieldReader& part) { ReadRotation(part, config->max_seq, rope); });
  };
  if (reader.Has("rope_parameters")) {
    if (reader.Has("rope_scaling")) reader.Fail("rope_scaling", "none beside rope_parameters");
    reader.Within("rope_parameters", [&](FieldReader& both) {
      for (const char* flat : {"rope_type", "type", "rope_theta", "factor"}) {
        if (both.Has(flat))
          both.Fail(flat, absl::StrCat("it in ", kGlobalAttention, " and in ", kLocalAttention));
      }
      read(both, kGlobalAttention, &config->rope);
      read(both, kLocalAttention, &local);
    });
  } else {
    read(reader, "rope_scaling", &config->rope);
  }
  if (config->window > 0) config->local_rope = local;
}

OrderedJson RopeJson(const Rope& rope) {
  OrderedJson json = {{"rope_type", RopeScalingName(rope.scaling)}, {"rope_theta", rope.theta}};
  if (rope.scaling == RopeScaling::kNone) return json;
  json["factor"] = rope.factor;
  if (rope.scaling == RopeScaling::kLinear) return json;
  if (rope.original_max_seq > 0) json["original_max_position_embeddings"] = rope.original_max_seq;
  if (rope.scaling == RopeScaling::kLlama3) {
    json["low_freq_factor"] = rope.low_frequency_factor;
    json["high_freq_factor"] = rope.high_frequency_factor;
    return json;
  }
  json["beta_fast"] = rope.beta_fast;
  json["beta_slow"] = rope.beta_slow;
  if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  if (rope.mscale > 0) json["mscale"] = rope.mscale;
  if (rope.mscale_all_dim > 0) json["mscale_all_dim"] = rope.mscale_all_dim;
  json["truncate"] = rope.truncate;
  return json;
}

}  // namespace sluice
