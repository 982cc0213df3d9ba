#ifndef SLUICE_TOOLS_PLAN_PLAN_GRAPH_STEP_H_
#define SLUICE_TOOLS_PLAN_PLAN_GRAPH_STEP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/profile_graph.h"
#include "tools/plan/plan_flags.h"

namespace sluice {

// PlanGraph() for the objective step. Errors as FindGraphStepPlan, and of the flags.
absl::StatusOr<std::string> PlanGraphStep(const ProfileGraph& graph, const PlanFlags& flags,
                                          const PlanChoices& choices);

// "node4-8, node10", as many as fit.
std::string NameNodes(const ProfileGraph& graph, const std::vector<int>& nodes, size_t columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_GRAPH_STEP_H_
