#include "schedules/optimise/partial.h"

#include <algorithm>

namespace sluice::optimise {

PartialOrder::PartialOrder(const Problem& problem, const Relaxation& relaxation)
    : problem_(problem),
      relaxation_(relaxation),
      total_(3 * static_cast<size_t>(problem.stages) * static_cast<size_t>(problem.micro_batches)),
      forwards_(problem.stages, 0),
      gradients_(problem.stages, 0),
      weights_(problem.stages, 0),
      free_(problem.head),
      forward_end_(total_ / 3, 0),
      gradient_end_(total_ / 3, 0),
      weight_end_(total_ / 3, 0),
      held_(problem.memory.size(), std::vector<double>(problem.ranks, 0)) {}

double PartialOrder::ForwardArrival(int stage, int k) const {
  return stage == 0 ? 0 : forward_end_[problem_.cell(stage - 1, k)] + problem_.hop[stage - 1];
}

double PartialOrder::GradientArrival(int stage, int k) const {
  const double own = forward_end_[problem_.cell(stage, k)];
  if (stage + 1 == problem_.stages) return own;
  return std::max(own, gradient_end_[problem_.cell(stage + 1, k)] + problem_.hop[stage]);
}

const std::vector<Option>& PartialOrder::FindOptions() {
  options_.clear();
  const auto add = [&](Op op, int stage, double arrival) {
    const Step step{op, static_cast<uint16_t>(stage)};
    const int rank = problem_.placement.rank(stage);
    const double start = std::max(free_[rank], arrival);
    options_.push_back({step, rank, start, start + problem_.duration(step)});
  };
  const auto fits = [&](int stage) {
    const int rank = problem_.placement.rank(stage);
    for (size_t i = 0; i < held_.size(); ++i) {
      const MemoryRule& rule = problem_.memory[i];
      if (held_[i][rank] + rule.held[stage] > rule.limit[rank] * (1 + kSlack)) return false;
    }
    return true;
  };
  for (int s = 0; s < problem_.stages; ++s) {
    const int f = forwards_[s];
    const int i = gradients_[s];
    if (f < problem_.micro_batches && (s == 0 || forwards_[s - 1] > f) && fits(s)) {
      add(Op::kForward, s, ForwardArrival(s, f));
    }
    if (i < f && (s + 1 == problem_.stages || gradients_[s + 1] > i)) {
      add(Op::kInputGrad, s, GradientArrival(s, i));
    }
    if (weights_[s] < i) add(Op::kWeightGrad, s, 0);
  }
  return options_;
}

void PartialOrder::Push(const Option& option) {
  const auto [step, rank, start, end] = option;
  steps_.push_back({option, free_[rank]});
  free_[rank] = end;
  const int s = step.stage;
  for (size_t i = 0; i < held_.size(); ++i) held_[i][rank] += problem_.memory[i].change(step);
  if (step.op == Op::kForward) forward_end_[problem_.cell(s, forwards_[s]++)] = end;
  if (step.op == Op::kInputGrad) gradient_end_[problem_.cell(s, gradients_[s]++)] = end;
  if (step.op == Op::kWeightGrad) weight_end_[problem_.cell(s, weights_[s]++)] = end;
}

void PartialOrder::Pop() {
  const auto [option, rank_free] = steps_.back();
  steps_.pop_back();
  const Step step = option.step;
  free_[option.rank] = rank_free;
  for (size_t i = 0; i < held_.size(); ++i) {
    held_[i][option.rank] -= problem_.memory[i].change(step);
  }
  if (step.op == Op::kForward) --forwards_[step.stage];
  if (step.op == Op::kInputGrad) --gradients_[step.stage];
  if (step.op == Op::kWeightGrad) --weights_[step.stage];
}

double PartialOrder::value() const {
  double value = 0;
  for (int r = 0; r < problem_.ranks; ++r) {
    value = std::max(value, free_[r] - problem_.grace[r]);
  }
  return value;
}

// The times of the relaxation, where they start from the actions that have run.
void PartialOrder::FindHeads() {
  const Problem& p = problem_;
  for (int k = 0; k < p.micro_batches; ++k) {
    for (int s = 0; s < p.stages; ++s) {
      if (k < forwards_[s]) continue;
      double start = std::max(free_[p.placement.rank(s)], ForwardArrival(s, k));
      if (k > 0) start = std::max(start, forward_end_[p.cell(s, k - 1)]);
      for (const Relaxation::Room& room : relaxation_.rooms()[s]) {
        if (const int before = k - room.to_gradient; before >= 0) {
          start = std::max(start, gradient_end_[p.cell(room.of, before)]);
        }
        if (const int before = k - room.to_weight; before >= 0) {
          start = std::max(start, weight_end_[p.cell(room.of, before)]);
        }
      }
      forward_end_[p.cell(s, k)] = start + p.forward[s];
    }
    for (int s = p.stages - 1; s >= 0; --s) {
      const size_t cell = p.cell(s, k);
      const double free = free_[p.placement.rank(s)];
      if (k >= gradients_[s]) {
        double start = std::max(free, GradientArrival(s, k));
        if (k > 0) start = std::max(start, gradient_end_[cell - 1]);
        gradient_end_[cell] = start + p.input_grad[s];
      }
      if (k >= weights_[s]) {
        double start = std::max(free, gradient_end_[cell]);
        if (k > 0) start = std::max(start, weight_end_[cell - 1]);
        weight_end_[cell] = start + p.weight_grad[s];
      }
    }
  }
}

double PartialOrder::RankBound(int rank) {
  const auto& tails = relaxation_.tails();
  jobs_.clear();
  for (int s : problem_.stages_of[rank]) {
    const auto add = [&](int from, const std::vector<double>& ends, double duration,
                         const std::vector<double>& after) {
      for (int k = from; k < problem_.micro_batches; ++k) {
        const size_t cell = problem_.cell(s, k);
        jobs_.push_back({ends[cell] - duration, duration, after[cell]});
      }
    };
    add(forwards_[s], forward_end_, problem_.forward[s], tails.forward);
    add(gradients_[s], gradient_end_, problem_.input_grad[s], tails.input_grad);
    add(weights_[s], weight_end_, problem_.weight_grad[s], tails.weight_grad);
  }
  return OneRankBound(jobs_);
}

double PartialOrder::Bound() {
  FindHeads();
  double best = value();
  for (int rank = 0; rank < problem_.ranks; ++rank) best = std::max(best, RankBound(rank));
  return best;
}

void PartialOrder::Describe(std::vector<uint8_t>* key, std::vector<double>* times) const {
  key->clear();
  times->assign(free_.begin(), free_.end());
  for (int s = 0; s < problem_.stages; ++s) {
    for (const int count : {forwards_[s], gradients_[s], weights_[s]}) {
      key->push_back(static_cast<uint8_t>(count));
    }
    if (s + 1 == problem_.stages) continue;
    const double after = free_[problem_.placement.rank(s + 1)];
    for (int k = forwards_[s + 1]; k < forwards_[s]; ++k) {
      times->push_back(std::max(after, forward_end_[problem_.cell(s, k)] + problem_.hop[s]));
    }
    const double before = free_[problem_.placement.rank(s)];
    for (int k = gradients_[s]; k < gradients_[s + 1]; ++k) {
      times->push_back(std::max(before, gradient_end_[problem_.cell(s + 1, k)] + problem_.hop[s]));
    }
  }
}

Order PartialOrder::order() const {
  Order order(problem_.ranks);
  for (const Undo& undo : steps_) order[undo.option.rank].push_back(undo.option.step);
  return order;
}

}  // namespace sluice::optimise
