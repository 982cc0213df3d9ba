#ifndef SLUICE_PARTITIONER_COSTS_MODEL_JSON_H_
#define SLUICE_PARTITIONER_COSTS_MODEL_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "models/spec/cuda_attention.h"
#include "models/spec/model_spec.h"
#include "partitioner/costs/json_fields.h"

namespace sluice {

// A model's configuration inside plans and profiles, so that they say by themselves what they were
// made for:
// {"type": "gpt", "layers": 6, ...}, {"type": "mlp", "widths": [784, 10]}, or, of every other
// decoder, {"type": "decoder", "config": what FormatModelConfig writes}. Requires a model that
// trains (models/layers/trainable.h).
nlohmann::ordered_json ModelToJson(const ModelSpec& spec);
// The reverse. InvalidArgument names `file` and the field under "model_config" that is wrong, or as
// ValidateSpec.
absl::StatusOr<ModelSpec> ModelFromJson(const nlohmann::json& json, const std::string& name,
                                        const std::string& file);

// Whose attention a GPU runs, of the optional field "attention", where it is not sluice's.
void AddAttention(CudaAttention attention, nlohmann::ordered_json* json);
CudaAttention ReadAttention(JsonFields* fields);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_MODEL_JSON_H_
