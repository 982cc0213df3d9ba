#include "pipeline/state/gradient_norms.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "pipeline/compile/memory/work_memory.h"
#include "pipeline/compile/plan/sharding.h"

namespace sluice {
namespace {

static_assert(kSquaresBlock == kShardBlock, "groups divide parameters between blocks");

size_t PartialIndex(const ParameterView& view) {
  return 2 * static_cast<size_t>(view.global_index);
}

std::vector<const ParameterView*> ViewsThatCount(const RankState& state) {
  std::vector<const ParameterView*> views;
  for (const ParameterView& view : state.parameters()) {
    if (view.decl->tied_to.empty() && view.model_copy == 0 && !view.decl->frozen)
      views.push_back(&view);
  }
  return views;
}

}  // namespace

SquareSums::SquareSums(const RankState* state, std::vector<const ParameterView*> views)
    : state_(*state),
      views_(std::move(views)),
      sums_(state_.arena().at<double>(state_.layout().norm_work)),
      blocks_(
          state_.arena().at<double>(state_.layout().norm_work + NormPartialBytes(state_.plan()))),
      partial_(static_cast<size_t>(NormPartialCount(state_.plan()))) {
  double* blocks = blocks_;
  for (const ParameterView* view : views_) {
    const int64_t count = SquareBlocks(view->slice_count);
    gradients_.push_back(
        {.n = view->slice_count, .values = view->slice_gradient(), .sums = blocks});
    rows_.push_back({.first = view->slice_first / kSquaresBlock,
                     .n = count,
                     .values = blocks,
                     .sums = sums_ + PartialIndex(*view)});
    blocks += count;
  }
}

void SquareSums::QueueBlocks() { state_.kernels().block_squares(state_.stream(), gradients_); }

void SquareSums::AddBlocks() {
  const size_t bytes = partial_.size() * sizeof(double);
  Device& device = state_.device();
  device.Copy(state_.stream(), sums_, partial_.data(), bytes);
  state_.kernels().add_in_groups(state_.stream(), rows_);
  device.Copy(state_.stream(), partial_.data(), sums_, bytes);
}

void SquareSums::AddPartialTo(absl::Span<double> sums) const {
  for (const ParameterView* view : views_) {
    const size_t at = PartialIndex(*view);
    sums[static_cast<size_t>(view->global_index)] += partial_[at] + partial_[at + 1];
  }
}

void SquareSums::AddTo(absl::Span<double> sums) {
  std::fill(partial_.begin(), partial_.end(), 0.0);
  QueueBlocks();
  AddBlocks();
  AddPartialTo(sums);
}

GradientNorms::GradientNorms(const RankState* state, Communicator* group)
    : group_(group), sums_(state, ViewsThatCount(*state)) {}

absl::Status GradientNorms::Sum(absl::Duration timeout, absl::Span<double> norms) {
  std::fill(norms.begin(), norms.end(), 0.0);
  if (group_ != nullptr) return Chain(timeout, norms);
  sums_.AddTo(norms);
  return absl::OkStatus();
}

absl::Status GradientNorms::Chain(absl::Duration timeout, absl::Span<double> norms) {
  // The work is done by all ranks of the group at once; what goes from one to the next is a few additions.
  sums_.QueueBlocks();
  const absl::Span<double> partial = sums_.partial();
  std::fill(partial.begin(), partial.end(), 0.0);
  const int self = group_->rank();
  const size_t bytes = partial.size() * sizeof(double);
  Ticket ticket = 0;
  absl::Status status = absl::OkStatus();
  if (self > 0) {
    status = group_->PostReceive(self - 1, partial.data(), bytes, &ticket);
    if (status.ok()) status = group_->WaitReceive(self - 1, ticket, Instant::Now() + timeout);
    if (!status.ok()) return status;
  }
  sums_.AddBlocks();
  if (self + 1 == group_->size()) {
    sums_.AddPartialTo(norms);
    return status;
  }
  status = group_->PostSend(self + 1, partial.data(), bytes, &ticket);
  if (status.ok()) status = group_->WaitSend(self + 1, ticket, Instant::Now() + timeout);
  return status;
}

}  // namespace sluice
