#include "schedules/optimise/exact/prefix.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedules/optimise/dispatch/dispatch.h"

namespace sluice::optimise {
namespace {

// [stage] the next stage on the same rank whose W lasts as long and frees as much, where no B waits
// for either; -1: there is none.
std::vector<int> StagesWithTheSameWeights(const Problem& problem) {
  std::vector<int> same(problem.stages, -1);
  for (const std::vector<int>& stages : problem.stages_of) {
    for (size_t i = 0; i + 1 < stages.size(); ++i) {
      const int a = stages[i];
      const int b = stages[i + 1];
      bool alike = problem.weight_grad[a] == problem.weight_grad[b];
      alike &= !problem.fuses(a) && !problem.fuses(b);
      for (const MemoryRule& rule : problem.memory) alike &= rule.kept[a] == rule.kept[b];
      if (alike) same[a] = b;
    }
  }
  return same;
}

}  // namespace

Prefix::Prefix(const Problem& problem, const Relaxation& relaxation, double limit)
    : problem_(problem),
      cheapest_(relaxation.problem()),
      relaxation_(relaxation),
      limit_(limit),
      may_put_off_(problem.stages > problem.ranks && !problem.memory.empty()),
      rank_of_(problem.placement.rank_of_stage().begin(), problem.placement.rank_of_stage().end()),
      same_weights_(StagesWithTheSameWeights(problem)),
      forwards_(problem.stages, 0),
      gradients_(problem.stages, 0),
      weights_(problem.stages, 0),
      put_off_(problem.stages, 0),
      free_(problem.head),
      bounds_(problem.ranks, 0) {
  const size_t cells = problem.cell(problem.stages, 0);
  for (auto* times : {&forward_input_, &gradient_input_, &heads_.forward, &heads_.gradient,
                      &heads_.weight, &grown_.forward, &grown_.gradient, &grown_.weight}) {
    times->assign(cells, 0);
  }
}

PrefixState Prefix::Empty() const {
  PrefixState state{std::vector<uint8_t>(3 * static_cast<size_t>(problem_.stages), 0),
                    problem_.head, std::vector<double>(problem_.ranks, 0)};
  if (may_put_off_) state.times.resize(state.times.size() + put_off_.size(), 0);
  return state;
}

bool Prefix::Load(const PrefixState& state) {
  const std::vector<uint8_t>& counts = state.counts;
  const size_t stages = static_cast<size_t>(problem_.stages);
  for (size_t s = 0; s < stages; ++s) {
    forwards_[s] = counts[s];
    gradients_[s] = counts[stages + s];
    weights_[s] = counts[2 * stages + s];
  }
  const double* time = state.times.data();
  for (double& free : free_) free = *time++;
  for (int s = 0; s + 1 < problem_.stages; ++s) {
    for (int k = forwards_[s + 1]; k < forwards_[s]; ++k) {
      forward_input_[problem_.cell(s + 1, k)] = *time++;
    }
    for (int k = gradients_[s]; k < gradients_[s + 1]; ++k) {
      gradient_input_[problem_.cell(s, k)] = *time++;
    }
  }
  if (problem_.turn > 0) {
    const int last = problem_.stages - 1;
    for (int k = gradients_[last]; k < forwards_[last]; ++k) {
      gradient_input_[problem_.cell(last, k)] = *time++;
    }
  }
  if (may_put_off_) {
    for (char& put_off : put_off_) put_off = *time++ > 0 ? 1 : 0;
  }
  bounds_ = state.bounds;
  if (!FindHeads()) return false;
  std::swap(heads_, grown_);
  return true;
}

void Prefix::Describe(PrefixState* state) const {
  const auto& p = problem_;
  state->counts.clear();
  for (const std::vector<int>* counts : {&forwards_, &gradients_, &weights_}) {
    for (int count : *counts) state->counts.push_back(static_cast<uint8_t>(count));
  }
  state->times.clear();
  for (int rank = 0; rank < p.ranks; ++rank) {
    double next = kNever;
    for (int s : p.stages_of[rank]) {
      const auto& [f, i, w] = std::tie(forwards_[s], gradients_[s], weights_[s]);
      if (f < p.micro_batches) next = std::min(next, grown_.forward[p.cell(s, f)]);
      if (i < p.micro_batches) next = std::min(next, grown_.gradient[p.cell(s, i)]);
      if (w < p.micro_batches) next = std::min(next, grown_.weight[p.cell(s, w)]);
    }
    state->times.push_back(next == kNever ? free_[rank] : next);
  }
  const auto add = [&](const std::vector<double>& starts, int stage, int from, int to) {
    const double* row = starts.data() + p.cell(stage, 0);
    state->times.insert(state->times.end(), row + from, row + to);
  };
  for (int s = 0; s + 1 < p.stages; ++s) {
    if (forwards_[s] > forwards_[s + 1]) add(grown_.forward, s + 1, forwards_[s + 1], forwards_[s]);
    if (gradients_[s + 1] > gradients_[s]) {
      add(grown_.gradient, s, gradients_[s], gradients_[s + 1]);
    }
  }
  const int last = p.stages - 1;
  if (p.turn > 0 && forwards_[last] > gradients_[last]) {
    add(grown_.gradient, last, gradients_[last], forwards_[last]);
  }
  if (may_put_off_) state->times.insert(state->times.end(), put_off_.begin(), put_off_.end());
}

bool Prefix::FindState(PrefixState* state) {
  if (!FindHeads()) return false;
  Describe(state);
  return true;
}

double Prefix::value() const {
  double value = 0;
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    value = std::max(value, free_[rank] - problem_.grace[rank]);
  }
  return value;
}

}  // namespace sluice::optimise
