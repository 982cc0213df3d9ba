#ifndef SLUICE_TOOLS_SCHEDULE_SCHEDULE_COSTS_H_
#define SLUICE_TOOLS_SCHEDULE_SCHEDULE_COSTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "schedules/simulate/simulate.h"
#include "tools/schedule/schedule_costs_json.h"

namespace sluice {

// What `--cost` and `--costs` say; at most one of them is given, and neither means F = I = W = 1.
struct CostFlags {
  std::string uniform;  // "F=1,I=1,W=1,send=0"
  std::string file;     // JSON with a value per stage
  // They speak of one stage a rank, of which the table cuts each into so many.
  int parts = 1;
};

// The costs of a table on `placement`. B = I + W unless given; B without I and W means I = W = B
// / 2. InvalidArgument names the flag or file, and the field.
absl::StatusOr<ScheduleCosts> ReadScheduleCosts(const CostFlags& flags, const Placement& placement);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_SCHEDULE_COSTS_H_
