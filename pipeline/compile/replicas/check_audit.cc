#include "pipeline/compile/replicas/check_audit.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// What keeps ranks from auditing each other; "" where nothing does.
std::string WhyNotAudited(const RunPlan& plan) {
  if (plan.world_size() == 1) {
    return "there is one rank, and no other that could compute its work again; take more stages or "
           "replicas, or leave it out";
  }
  if (plan.asynchronous()) {
    return absl::StrCat("schedule '", plan.lowered.name,
                        "' changes the weights without a flush, so none of them are there after a "
                        "step to compute with again; take another schedule, or leave it out");
  }
  return "";
}

}  // namespace

absl::Status CheckAudit(const RunPlan& plan) {
  const int every = plan.request.audit_every;
  if (every == 0) return absl::OkStatus();
  if (every < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--audit ", every, ": expected a number of steps from one audit to the next, or 0"));
  }
  const std::string why = WhyNotAudited(plan);
  return why.empty() ? absl::OkStatus()
                     : absl::InvalidArgumentError(absl::StrCat("--audit ", every, ": ", why));
}

}  // namespace sluice
