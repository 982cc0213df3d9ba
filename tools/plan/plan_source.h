#ifndef SLUICE_TOOLS_PLAN_PLAN_SOURCE_H_
#define SLUICE_TOOLS_PLAN_PLAN_SOURCE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/portable_kernels.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/planning/file.h"
#include "partitioner/planning/joint_plan.h"
#include "tools/plan/plan_flags.h"

namespace sluice {

// What is planned, with where its costs come from.
struct PlanSource {
  PlanContext context;  // its spec is absent for models that sluice does not train
  BatchShape batch;     // the micro-batch that was asked for, or the default
  int layers = 0;
  std::string device;      // "h200"
  std::string costs;       // where the seconds come from, for people
  int most_tensor = 1;     // devices that could share a stage
  bool runs_here = false;  // whether `sluice train` could run what is planned: bytes are its own
  // Those that need these bytes: this machine's where it was measured, else any processor's.
  const Kernels* kernels = &PortableCpuKernels();
  // The machines of any setting, with their costs; thread-safe. InvalidArgument for one that the source knows nothing of: a
  // profile is of one micro-batch size, and neither it nor a measured CPU of shared stages.
  std::function<absl::StatusOr<Machines>(const PlanSetting&)> price;
  // How many ranks of each kind of device, in the order of the cluster; one number where all are
  // alike.
  std::vector<int> kinds;
};

// Resolves MODEL and --device: a profile.json brings its own costs; a model is priced on the
// device, the CPU after a short measurement. InvalidArgument names the flag or file.
absl::StatusOr<PlanSource> LoadPlanSource(const PlanFlags& flags, const PlanChoices& choices);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_SOURCE_H_
