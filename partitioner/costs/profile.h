#ifndef SLUICE_PARTITIONER_COSTS_PROFILE_H_
#define SLUICE_PARTITIONER_COSTS_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/adaptation.h"
#include "models/spec/cuda_attention.h"
#include "models/spec/dtype.h"
#include "models/spec/model_spec.h"
#include "models/spec/optimizer_kind.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/costs/link.h"

namespace sluice {

// A call timed several times, in seconds. Plans use the median; the least says how much the machine
// was disturbed.
struct Timing {
  double least = 0;
  double median = 0;
};

struct LayerTimings {
  Timing forward, input_grad, weight_grad, restore;
  Timing apart_input_grad, apart_weight_grad;  // as in LayerCost; 0 in older profiles
  Timing update;  // once a step: the gradient's norm, AdamW, the weights made ready again
  // Of `update`, that of weights which are another layer's, too; 0 in older profiles.
  Timing tied_update;
  // Once per step, beside `update`: adding the gradients of these weights to the other layer's; 0 in
  // older profiles.
  Timing tied_sum;
};

// Makes the seconds of `layer` the medians.
void TakeMedians(const LayerTimings& timings, LayerCost* layer);

// How often a layer is measured at most.
inline constexpr int kMostRepetitions = 1 << 20;

// A measured profile, as `sluice profile` writes it: one model at one micro-batch shape on one
// device.
struct Profile {
  std::string model;
  std::optional<ModelSpec> spec;  // where the model is one that sluice knows
  std::string device;
  int64_t micro_batch_size = 1;
  int64_t seq = 1;
  DType dtype = DType::kFloat32;
  Adaptation adaptation;                             // what of the model was trained
  std::optional<OptimizerKind> optimizer;            // not in older profiles
  CudaAttention attention = CudaAttention::kSluice;  // of a GPU
  int repetitions = 1;
  Link link;                          // the transport between stages, as measured
  std::vector<LayerCost> layers;      // seconds are the medians
  std::vector<LayerTimings> timings;  // [layer]
};

std::string FormatProfile(const Profile& profile);
// Reads what FormatProfile wrote. InvalidArgument names `file` and the field that is missing or
// makes no sense.
absl::StatusOr<Profile> ParseProfile(absl::string_view json, absl::string_view file);
// Whether a JSON document says that it is a profile (rather than a model's configuration).
bool IsProfile(absl::string_view json);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_PROFILE_H_
