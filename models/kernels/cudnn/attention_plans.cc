#include "models/kernels/cudnn/attention_plans.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice::cudnn {
namespace {

constexpr int64_t kCounterBytes = 256;
constexpr int64_t kQueryTile = 64, kKeyTile = 128;  // rows

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

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

AttentionWorkspace WorkspaceOf(const AttentionShape& s) {
  const int64_t heads = s.batch * s.heads;
  const int64_t row_sums = RoundUp(heads * s.seq * int64_t{sizeof(float)}, kCounterBytes);
  const int64_t dscores = heads * RoundUp(s.seq, kQueryTile) * RoundUp(s.seq, kKeyTile) * 2;
  // Of grouped queries, the gradients of keys and of values by each query head.
  const int64_t of_heads =
      s.kv_heads == s.heads ? 0 : 2 * RoundUp(heads * s.seq * s.width * 2, kCounterBytes);
  return {.forward = kCounterBytes,
          .row_sums = static_cast<size_t>(row_sums),
          .backward = static_cast<size_t>(row_sums + dscores + of_heads + kCounterBytes)};
}

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
