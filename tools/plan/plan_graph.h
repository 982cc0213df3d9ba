#ifndef SLUICE_TOOLS_PLAN_PLAN_GRAPH_H_
#define SLUICE_TOOLS_PLAN_PLAN_GRAPH_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/plan/plan_flags.h"

namespace sluice {

// What `sluice plan` prints for a graph of operations (NamesGraphFile), whose stages need not be
// neighbours in a list. InvalidArgument names the flag or the line of the file;
// Unimplemented what is only done for lists of layers so far.
absl::StatusOr<std::string> PlanGraph(const PlanFlags& flags, const PlanChoices& choices);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_GRAPH_H_
