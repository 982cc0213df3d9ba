#include "pipeline/gradient_norms.h"

#include <algorithm>
#include <cstddef>

#include "pipeline/sharding.h"

namespace sluice {

double SumOfSquares(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t at = 0; at < count; at += kShardBlock)
    sum += CpuKernels().sum_of_squares({}, std::min(kShardBlock, count - at), values + at);
  return sum;
}

GradientNorms::GradientNorms(const RankState* state, Communicator* replicas)
    : state_(*state), replicas_(replicas) {
  size_t blocks = 0;
  for (const ParameterView& view : state_.parameters()) {
    if (!view.decl->tied_to.empty() || view.replica > 0) continue;
    views_.push_back(&view);
    blocks += static_cast<size_t>((view.slice_count + kShardBlock - 1) / kShardBlock);
  }
  if (replicas_ != nullptr) blocks_.resize(blocks);
}

absl::Status GradientNorms::Sum(absl::Duration timeout, absl::Span<double> norms) {
  std::fill(norms.begin(), norms.end(), 0.0);
  if (replicas_ != nullptr) return Chain(timeout, norms);
  for (const ParameterView* view : views_)
    norms[static_cast<size_t>(view->global_index)] = SumOfSquares(view->gradient, view->elements);
  return absl::OkStatus();
}

absl::Status GradientNorms::Chain(absl::Duration timeout, absl::Span<double> norms) {
  // The work is done by all replicas at once; what goes from one to the next is a few additions.
  double* block = blocks_.data();
  for (const ParameterView* view : views_) {
    for (int64_t at = 0; at < view->slice_count; at += kShardBlock) {
      const int64_t count = std::min(kShardBlock, view->slice_count - at);
      *block++ = CpuKernels().sum_of_squares({}, count, view->slice_gradient() + at);
    }
  }
  const int self = replicas_->rank();
  const size_t bytes = norms.size() * sizeof(double);
  Ticket ticket = 0;
  absl::Status status = absl::OkStatus();
  if (self > 0) {
    status = replicas_->PostReceive(self - 1, norms.data(), bytes, &ticket);
    if (status.ok()) status = replicas_->WaitReceive(self - 1, ticket, absl::Now() + timeout);
    if (!status.ok()) return status;
  }
  block = blocks_.data();
  for (const ParameterView* view : views_) {
    double& sum = norms[static_cast<size_t>(view->global_index)];
    for (int64_t at = 0; at < view->slice_count; at += kShardBlock) sum += *block++;
  }
  if (self + 1 == replicas_->size()) return status;
  status = replicas_->PostSend(self + 1, norms.data(), bytes, &ticket);
  if (status.ok()) status = replicas_->WaitSend(self + 1, ticket, absl::Now() + timeout);
  std::fill(norms.begin(), norms.end(), 0.0);
  return status;
}

}  // namespace sluice
