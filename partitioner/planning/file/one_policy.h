#ifndef SLUICE_PARTITIONER_PLANNING_FILE_ONE_POLICY_H_
#define SLUICE_PARTITIONER_PLANNING_FILE_ONE_POLICY_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partitioner/planning/plan/plan.h"

namespace sluice {

// The recompute policy of all stages. InvalidArgument where they have several, which `trainer`
// ("Megatron-LM") does not.
absl::StatusOr<Recompute> OnePolicy(const Plan& plan, absl::string_view trainer);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_FILE_ONE_POLICY_H_
