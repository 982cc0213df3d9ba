#include "schedules/optimise/search/replay.h"

#include <algorithm>

namespace sluice::optimise {

Replay::Replay(const Problem& problem)
    : problem_(problem),
      forwards_(problem.stages),
      gradients_(problem.stages),
      end_(problem.ranks),
      count_(problem.ranks),
      done_(problem.ranks),
      queued_(problem.ranks) {
  const size_t cells =
      static_cast<size_t>(problem.stages) * static_cast<size_t>(problem.micro_batches);
  forward_end_.resize(cells);
  gradient_end_.resize(cells);
  forward_at_.resize(cells);
  gradient_at_.resize(cells);
}

bool Replay::Run(const Order& order) {
  std::fill(forwards_.begin(), forwards_.end(), 0);
  std::fill(gradients_.begin(), gradients_.end(), 0);
  std::fill(done_.begin(), done_.end(), 0);
  std::fill(queued_.begin(), queued_.end(), 1);
  queue_.clear();
  for (int rank = problem_.ranks - 1; rank >= 0; --rank) {
    end_[rank].resize(order[rank].size());
    count_[rank].resize(order[rank].size());
    queue_.push_back(rank);
  }
  while (!queue_.empty()) {
    const int rank = queue_.back();
    queue_.pop_back();
    queued_[rank] = 0;
    Advance(order, rank);
  }
  double value = 0;
  double sum = 0;
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    if (done_[rank] < static_cast<int>(order[rank].size())) return false;
    const double end = end_[rank].back() - problem_.grace[rank];
    value = std::max(value, end);
    sum += end;
  }
  value_ = value;
  mean_ = sum / problem_.ranks;
  return true;
}

double Replay::Arrival(const Step& step, int k) const {
  const int s = step.stage;
  if (step.op == Op::kForward) {
    return s == 0 ? 0 : forward_end_[problem_.cell(s - 1, k)] + problem_.hop[s - 1];
  }
  if (step.op == Op::kWeightGrad || s + 1 == problem_.stages) return 0;
  return gradient_end_[problem_.cell(s + 1, k)] + problem_.hop[s];
}

void Replay::Wake(int stage) {
  const int rank = problem_.placement.rank(stage);
  if (queued_[rank]) return;
  queued_[rank] = 1;
  queue_.push_back(rank);
}

void Replay::Advance(const Order& order, int rank) {
  const auto& row = order[rank];
  int& at = done_[rank];
  double now = at == 0 ? 0 : end_[rank][at - 1];
  for (; at < static_cast<int>(row.size()); ++at) {
    const Step step = row[at];
    const int s = step.stage;
    int k = 0;
    if (step.op == Op::kForward) {
      k = forwards_[s];
      if (s > 0 && forwards_[s - 1] <= k) return;
    } else if (RunsInputGrad(step.op)) {
      k = gradients_[s];
      if (s + 1 < problem_.stages && gradients_[s + 1] <= k) return;
    }
    now = std::max(now, Arrival(step, k)) + problem_.duration(step);
    end_[rank][at] = now;
    count_[rank][at] = k;
    const size_t cell = problem_.cell(s, k);
    if (step.op == Op::kForward) {
      ++forwards_[s];
      forward_end_[cell] = now;
      forward_at_[cell] = {rank, at};
      if (s + 1 < problem_.stages) Wake(s + 1);
    } else if (RunsInputGrad(step.op)) {
      ++gradients_[s];
      gradient_end_[cell] = now;
      gradient_at_[cell] = {rank, at};
      if (s > 0) Wake(s - 1);
    }
  }
}

const std::vector<Replay::Block>& Replay::FindBlocks(const Order& order) {
  blocks_.clear();
  int rank = 0;
  for (int r = 1; r < problem_.ranks; ++r) {
    if (end_[r].back() - problem_.grace[r] > end_[rank].back() - problem_.grace[rank]) rank = r;
  }
  int last = static_cast<int>(order[rank].size()) - 1;
  for (int at = last; at >= 0;) {
    const Step step = order[rank][at];
    const double start = end_[rank][at] - problem_.duration(step);
    const double before = at == 0 ? 0 : end_[rank][at - 1];
    const int k = count_[rank][at];
    // Rounding may make the start differ from what it was computed from.
    const double arrival = Arrival(step, k);
    if (at > 0 && before >= arrival) {
      --at;
      continue;
    }
    if (last > at) blocks_.push_back({rank, at, last});
    const bool first_input = step.op == Op::kForward && step.stage == 0;
    if (first_input || start <= 0 || step.op == Op::kWeightGrad) break;
    Where producer{rank, at - 1};
    if (step.op == Op::kForward) {
      producer = forward_at_[problem_.cell(step.stage - 1, k)];
    } else if (step.stage + 1 < problem_.stages) {
      producer = gradient_at_[problem_.cell(step.stage + 1, k)];
    }
    rank = producer.rank;
    at = last = producer.position;
  }
  return blocks_;
}

}  // namespace sluice::optimise
