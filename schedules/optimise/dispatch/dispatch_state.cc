#include "schedules/optimise/dispatch/dispatch_state.h"

#include <algorithm>

namespace sluice::optimise {
namespace {

size_t Cells(const Problem& problem) {
  return static_cast<size_t>(problem.stages) * static_cast<size_t>(problem.micro_batches);
}

}  // namespace

DispatchState::DispatchState(const Problem& problem, const std::vector<char>& prompt_weights)
    : problem_(problem),
      prompt_weights_(prompt_weights),
      forward_end_(Cells(problem), 0),
      gradient_end_(Cells(problem), 0),
      forwards_(problem.stages, 0),
      gradients_(problem.stages, 0),
      weights_(problem.stages, 0),
      cycle_(BusiestWork(problem)),
      free_at_(problem.ranks, 0),
      idle_(problem.ranks, 0) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    memory_.emplace_back(problem, rank);
    schedule_.order.emplace_back().reserve(3 * problem.stages_of[rank].size() *
                                           static_cast<size_t>(problem.micro_batches));
  }
}

Schedule DispatchState::Run(const std::function<void(int, double)>& decide) {
  for (int rank = 0; rank < problem_.ranks; ++rank) WaitUntil(rank, 0);
  while (!events_.empty()) {
    const auto [now, rank] = events_.top();
    events_.pop();
    if (now >= free_at_[rank]) decide(rank, now);
  }
  schedule_.value = 0;
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    schedule_.value = std::max(schedule_.value, free_at_[rank] - problem_.grace[rank]);
  }
  return std::move(schedule_);
}

double DispatchState::ForwardArrival(int stage) const {
  const int k = forwards_[stage];
  if (k == problem_.micro_batches) return kNever;
  if (stage == 0) return 0;
  if (forwards_[stage - 1] <= k) return kNever;
  return forward_end_[problem_.cell(stage - 1, k)] + problem_.hop[stage - 1];
}

double DispatchState::GradientArrival(int stage) const {
  const int k = gradients_[stage];
  if (k == forwards_[stage]) return kNever;
  if (stage + 1 == problem_.stages) return 0;
  if (gradients_[stage + 1] <= k) return kNever;
  return gradient_end_[problem_.cell(stage + 1, k)] + problem_.hop[stage];
}

// For every micro-batch: what the rank holds of this and later micro-batches, plus what this one
// still needs, must fit in memory. Between the counts of F of the stages, both terms only get
// smaller, so these counts are the only micro-batches to look at.
bool DispatchState::Safe(int rank, int stage) const {
  const std::vector<int>& stages = problem_.stages_of[rank];
  if (stages.size() == 1 || problem_.memory.empty()) return true;
  const auto forwards = [&](int s) { return forwards_[s] + (s == stage ? 1 : 0); };
  for (const MemoryRule& rule : problem_.memory) {
    for (int at : stages) {
      const int micro_batch = forwards(at);
      if (micro_batch >= problem_.micro_batches) continue;
      double total = 0;
      for (int s : stages) {
        const int from = std::max(micro_batch, gradients_[s]);
        if (forwards(s) > from) total += rule.held[s] * (forwards(s) - from);
        if (forwards(s) <= micro_batch) total += rule.held[s];
      }
      if (total > rule.limit[rank] * (1 + kSlack) - rule.reserve[rank]) return false;
    }
  }
  return true;
}

void DispatchState::Start(int rank, Op op, int stage, double now) {
  if (!schedule_.order[rank].empty()) idle_[rank] += now - free_at_[rank];
  Append(rank, {op, static_cast<uint16_t>(stage)}, now);
  const double end = free_at_[rank];
  if (op == Op::kForward) {
    forward_end_[problem_.cell(stage, forwards_[stage]++)] = end;
    if (stage + 1 < problem_.stages) Announce(stage + 1, end + problem_.hop[stage]);
  } else if (RunsInputGrad(op)) {
    gradient_end_[problem_.cell(stage, gradients_[stage]++)] = end;
    if (stage > 0) Announce(stage - 1, end + problem_.hop[stage - 1]);
    if (op == Op::kBackward) {
      ++weights_[stage];
    } else if (!prompt_weights_.empty() && prompt_weights_[stage]) {
      Append(rank, {Op::kWeightGrad, static_cast<uint16_t>(stage)}, end);
      ++weights_[stage];
    }
  } else {
    ++weights_[stage];
  }
  WaitUntil(rank, free_at_[rank]);
}

void DispatchState::Append(int rank, const Step& step, double now) {
  schedule_.order[rank].push_back(step);
  memory_[rank].Apply(step);
  free_at_[rank] = now + problem_.duration(step);
}

// Makes the rank of the consumer decide at the time `arrival`, unless it is busy then and decides
// later anyway.
void DispatchState::Announce(int consumer, double arrival) {
  const int rank = problem_.placement.rank(consumer);
  if (free_at_[rank] <= arrival) WaitUntil(rank, arrival);
}

}  // namespace sluice::optimise
