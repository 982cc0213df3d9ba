#ifndef SLUICE_COMM_MESSAGE_FAILPOINT_H_
#define SLUICE_COMM_MESSAGE_FAILPOINT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/failpoints/failpoints.h"

namespace sluice {

// Failpoints of the group "message", by what a rank does: it posts a send ("send") or a receive
// ("receive"), waits for one ("wait"), or meets all ranks ("meet"). An error, for the caller to
// return, is that of a lost rank.
inline absl::Status HitMessage(absl::string_view name) {
  const FaultAnswer answer = HitFailpoint("message", name);
  if (answer.kill) DieOfFault();
  if (answer.error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the failpoint message.", name, " fails"));
}

}  // namespace sluice

#endif  // SLUICE_COMM_MESSAGE_FAILPOINT_H_
