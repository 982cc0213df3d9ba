#include "pipeline/gradient_norms.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "pipeline/memory_plan.h"
#include "pipeline/sharding.h"

namespace sluice {
namespace {

static_assert(kSquaresBlock == kShardBlock, "replicas divide parameters between blocks");

int64_t Blocks(int64_t elements) { return (elements + kSquaresBlock - 1) / kSquaresBlock; }

int64_t TotalsBytes(const RunPlan& plan) {
  int64_t parameters = 0;
  for (const LayerDecl& layer : plan.layers)
    parameters += static_cast<int64_t>(layer.parameters.size());
  return AlignUp(parameters * static_cast<int64_t>(sizeof(double)));
}

std::vector<const ParameterView*> ViewsThatCount(const RankState& state) {
  std::vector<const ParameterView*> views;
  for (const ParameterView& view : state.parameters()) {
    if (view.decl->tied_to.empty() && view.replica == 0) views.push_back(&view);
  }
  return views;
}

}  // namespace

int64_t NormWorkBytes(const RunPlan& plan, int world_rank) {
  const auto rank = static_cast<size_t>(plan.pipeline_rank(world_rank));
  int64_t blocks = 0;
  for (int layer : plan.train[rank].layers) {
    for (const ParameterDecl& decl : plan.layers[static_cast<size_t>(layer)].parameters)
      blocks += Blocks(ElementCount(decl.shape));
  }
  return TotalsBytes(plan) + AlignUp(blocks * static_cast<int64_t>(sizeof(double)));
}

SquareSums::SquareSums(const RankState* state, std::vector<const ParameterView*> views)
    : state_(*state),
      views_(std::move(views)),
      totals_(state_.arena().at<double>(state_.layout().norm_work)),
      blocks_(state_.arena().at<double>(state_.layout().norm_work + TotalsBytes(state_.plan()))) {}

void SquareSums::QueueBlocks() {
  double* blocks = blocks_;
  for (const ParameterView* view : views_) {
    state_.kernels().block_squares(state_.stream(), view->slice_count, view->slice_gradient(),
                                   blocks);
    blocks += Blocks(view->slice_count);
  }
}

void SquareSums::AddBlocksTo(absl::Span<double> sums) {
  const size_t bytes = sums.size() * sizeof(double);
  Device& device = state_.device();
  device.Copy(state_.stream(), totals_, sums.data(), bytes);
  const double* blocks = blocks_;
  for (const ParameterView* view : views_) {
    state_.kernels().add_in_order(state_.stream(), Blocks(view->slice_count), blocks,
                                  totals_ + view->global_index, /*accumulate=*/true);
    blocks += Blocks(view->slice_count);
  }
  device.Copy(state_.stream(), sums.data(), totals_, bytes);
}

void SquareSums::AddTo(absl::Span<double> sums) {
  QueueBlocks();
  AddBlocksTo(sums);
}

GradientNorms::GradientNorms(const RankState* state, Communicator* replicas)
    : replicas_(replicas), sums_(state, ViewsThatCount(*state)) {}

absl::Status GradientNorms::Sum(absl::Duration timeout, absl::Span<double> norms) {
  std::fill(norms.begin(), norms.end(), 0.0);
  if (replicas_ != nullptr) return Chain(timeout, norms);
  sums_.AddTo(norms);
  return absl::OkStatus();
}

absl::Status GradientNorms::Chain(absl::Duration timeout, absl::Span<double> norms) {
  // The work is done by all replicas at once; what goes from one to the next is a few additions.
  sums_.QueueBlocks();
  const int self = replicas_->rank();
  const size_t bytes = norms.size() * sizeof(double);
  Ticket ticket = 0;
  absl::Status status = absl::OkStatus();
  if (self > 0) {
    status = replicas_->PostReceive(self - 1, norms.data(), bytes, &ticket);
    if (status.ok()) status = replicas_->WaitReceive(self - 1, ticket, absl::Now() + timeout);
    if (!status.ok()) return status;
  }
  sums_.AddBlocksTo(norms);
  if (self + 1 == replicas_->size()) return status;
  status = replicas_->PostSend(self + 1, norms.data(), bytes, &ticket);
  if (status.ok()) status = replicas_->WaitSend(self + 1, ticket, absl::Now() + timeout);
  std::fill(norms.begin(), norms.end(), 0.0);
  return status;
}

}  // namespace sluice
