#include "models/kernels/cudnn/attention_plans.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice::cudnn {
namespace {

std::string Describe(const char* pass, const AttentionShape& s) {
  const std::string groups =
      s.kv_heads == s.heads ? "" : absl::StrFormat(" for %d of keys", s.kv_heads);
  return absl::StrFormat("attention's %s pass, batch %d, %d heads%s of %d values, %d tokens", pass,
                         s.batch, s.heads, groups, s.width, s.seq);
}

// The kernel of `graph`; its work area has the predicted size.
absl::StatusOr<std::unique_ptr<Plan>> MakePass(const Library& library, const TensorGraph& graph,
                                               const Target& target, const std::string& pass,
                                               size_t foretold) {
  constexpr char kInstead[] = "take --attention sluice";
  absl::StatusOr<std::unique_ptr<Plan>> plan = Plan::Make(library, graph, target);
  if (!plan.ok()) {
    return absl::Status(plan.status().code(),
                        absl::StrCat(plan.status().message(), " (", pass, "); ", kInstead));
  }
  if ((*plan)->workspace_bytes() > static_cast<int64_t>(foretold)) {
    return absl::InternalError(absl::StrFormat(
        "cuDNN's engine %d wants %d bytes of work area where %d were foretold (%s); %s",
        (*plan)->engine(), (*plan)->workspace_bytes(), foretold, pass, kInstead));
  }
  return plan;
}

}  // namespace

absl::StatusOr<AttentionPlans> MakeAttentionPlans(const Library& library,
                                                  const AttentionShape& shape,
                                                  const Target& target) {
  AttentionPlans plans = {.forward_graph = MakeForwardGraph(shape),
                          .backward_graph = MakeBackwardGraph(shape)};
  const AttentionWorkspace foretold = WorkspaceOf(shape);
  absl::StatusOr<std::unique_ptr<Plan>> forward = MakePass(
      library, plans.forward_graph.graph, target, Describe("forward", shape), foretold.forward);
  if (!forward.ok()) return forward.status();
  absl::StatusOr<std::unique_ptr<Plan>> backward =
      MakePass(library, plans.backward_graph.graph, target, Describe("backward", shape),
               foretold.backward - foretold.row_sums);
  if (!backward.ok()) return backward.status();
  plans.forward = *std::move(forward);
  plans.backward = *std::move(backward);
  return plans;
}

}  // namespace sluice::cudnn
