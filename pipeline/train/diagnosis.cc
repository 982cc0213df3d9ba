#include "pipeline/train/diagnosis.h"

#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Place = NonFinite::Where;

// Smaller came first.
auto Order(const NonFinite& found) {
  const int nowhere = found.where == Place::kNowhere ? 1 : 0;
  const int flow = found.where == Place::kForward ? found.layer : -found.layer;
  return std::make_tuple(nowhere, static_cast<int>(found.where), found.micro_batch, flow);
}

const char* What(Place where) {
  switch (where) {
    case Place::kForward:
      return "the output of";
    case Place::kInputGrad:
      return "the input gradient of";
    default:
      return "the weight gradients of";
  }
}

// Where bad values come from, in words.
std::string Begins(const NonFinite& first, const RunPlan& plan) {
  if (first.where == Place::kNowhere) {
    return "every layer's values are finite, so their sum overflowed";
  }
  const LayerDecl& layer = plan.layers[static_cast<size_t>(first.layer)];
  return absl::StrCat("first in ", What(first.where), " layer ", first.layer, " (", layer.name,
                      "), stage ", first.stage, ", micro-batch ", first.micro_batch);
}

}  // namespace

absl::StatusOr<NonFinite> FirstNonFinite(const NonFinite& mine, Communicator& communicator,
                                         absl::Duration timeout) {
  const double encoded[] = {static_cast<double>(mine.where), static_cast<double>(mine.layer),
                            static_cast<double>(mine.stage), static_cast<double>(mine.micro_batch)};
  constexpr size_t kFields = std::size(encoded);
  std::vector<double> all(kFields * static_cast<size_t>(communicator.size()));
  absl::Status status =
      communicator.AllGather(encoded, absl::MakeSpan(all), Instant::Now() + timeout);
  if (!status.ok()) return status;
  NonFinite first;
  for (size_t at = 0; at < all.size(); at += kFields) {
    const NonFinite found{.where = static_cast<Place>(static_cast<int>(all[at])),
                          .layer = static_cast<int>(all[at + 1]),
                          .stage = static_cast<int>(all[at + 2]),
                          .micro_batch = static_cast<int>(all[at + 3])};
    if (Order(found) < Order(first)) first = found;
  }
  return first;
}

absl::Status DescribeNonFinite(const NonFinite& first, const std::string& state, int64_t step,
                               const StepReport& report, const RunPlan& plan) {
  return absl::FailedPreconditionError(absl::StrCat(
      "step ", step, ": the loss is ", report.loss, " and the gradient norm ", report.grad_norm,
      "; ", Begins(first, plan), "; weights are as before this step",
      state.empty() ? "" : absl::StrCat(", when the values of ", state, " were not all finite"),
      kLowerRate));
}

absl::Status DescribeNonFiniteEvaluation(const NonFinite& first, const std::string& state,
                                         int64_t step, double loss, const RunPlan& plan) {
  return absl::FailedPreconditionError(
      absl::StrCat("after step ", step, " the validation loss is ", loss,
                   ", while that of the training was ", "finite; ", Begins(first, plan), "; ",
                   state.empty() ? "the weights themselves are finite"
                                 : absl::StrCat("the values of ", state, " are not all finite"),
                   "; look at the validation data, or", absl::string_view(kLowerRate).substr(1)));
}

}  // namespace sluice
