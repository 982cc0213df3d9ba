#ifndef SLUICE_TOOLS_PLAN_SOURCE_H_
#define SLUICE_TOOLS_PLAN_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/layer_cost.h"
#include "partitioner/plan_file.h"
#include "tools/plan_flags.h"

namespace sluice {

// What is planned, with its costs, wherever they came from.
struct PlanSource {
  PlanContext context;  // its spec is absent only for profiles of models that sluice does not know
  BatchShape batch;
  std::vector<LayerCost> layers;
  std::string device;             // "h200"
  std::string costs;              // where the seconds come from, for people
  Link link;                      // of the device; flags may say otherwise
  std::optional<int64_t> memory;  // of each device
};

// Resolves MODEL and --device: a profile.json brings its own costs; a model is priced on the
// device, the CPU after a short measurement. InvalidArgument names the flag or file.
absl::StatusOr<PlanSource> LoadPlanSource(const PlanFlags& flags, const PlanChoices& choices);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_SOURCE_H_
