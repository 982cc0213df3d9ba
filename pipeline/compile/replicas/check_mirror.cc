#include "pipeline/compile/replicas/check_mirror.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// A resumed run may have the flag from its run.toml, where nobody has typed it.
constexpr char kWithout[] = "leave it out (--mirror=false where a run.toml has it)";

// What keeps ranks from mirroring each other; "" where nothing does.
std::string WhyNotMirrored(const RunPlan& plan) {
  const std::string schedule = absl::StrCat("schedule '", plan.lowered.name, "' ");
  if (plan.asynchronous()) {
    return absl::StrCat(schedule,
                        "changes the weights without a flush, at which ranks could agree on a "
                        "step's gradients; take another schedule");
  }
  if (plan.lowered.placement.copies() > 1) {
    return absl::StrCat(schedule, "has two copies of the model, on different ranks, already; ",
                        kWithout, ", or take another schedule");
  }
  if (plan.has_stage_members()) {
    return absl::StrCat(
        "the ranks that share a stage hold the same state already, and a stage of one rank is "
        "not mirrored beside them; ",
        kWithout, ", or give each stage one rank");
  }
  if (plan.zero() >= 1) {
    return absl::StrCat("with ZeRO ", plan.zero(),
                        " each replica has a part of the optimizer's state that no other has, and "
                        "these parts are not mirrored; take ZeRO 0, whose replicas hold each "
                        "other's state");
  }
  if (plan.world_size() == 1) {
    return absl::StrCat(
        "there is one rank, and no other that could keep its state; take more stages, or ",
        kWithout);
  }
  return "";
}

}  // namespace

absl::Status CheckMirror(const RunPlan& plan) {
  if (!plan.request.mirror) return absl::OkStatus();
  const std::string why = WhyNotMirrored(plan);
  return why.empty() ? absl::OkStatus()
                     : absl::InvalidArgumentError(absl::StrCat("--mirror: ", why));
}

}  // namespace sluice
