#include "schedules/optimise/prefix.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedules/optimise/dispatch.h"

namespace sluice::optimise {
namespace {

// [stage] the next stage on the same rank whose W lasts as long and frees as much; -1: there is
// none.
std::vector<int> StagesWithTheSameWeights(const Problem& problem) {
  std::vector<int> same(problem.stages, -1);
  for (const std::vector<int>& stages : problem.stages_of) {
    for (size_t i = 0; i + 1 < stages.size(); ++i) {
      const int a = stages[i];
      const int b = stages[i + 1];
      bool alike = problem.weight_grad[a] == problem.weight_grad[b];
      for (const MemoryRule& rule : problem.memory) alike &= rule.kept[a] == rule.kept[b];
      if (alike) same[a] = b;
    }
  }
  return same;
}

}  // namespace

Prefix::Prefix(const Problem& problem, const Relaxation& relaxation, double limit)
    : problem_(problem),
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
  for (int s = 0; s + 1 < p.stages; ++s) {
    const auto add = [&](const std::vector<double>& starts, int stage, int from, int to) {
      const double* row = starts.data() + p.cell(stage, 0);
      state->times.insert(state->times.end(), row + from, row + to);
    };
    if (forwards_[s] > forwards_[s + 1]) add(grown_.forward, s + 1, forwards_[s + 1], forwards_[s]);
    if (gradients_[s + 1] > gradients_[s])
      add(grown_.gradient, s, gradients_[s], gradients_[s + 1]);
  }
  if (may_put_off_) state->times.insert(state->times.end(), put_off_.begin(), put_off_.end());
}

// Whether there is room for the next F of `stage`, now and for what has to get through after it.
bool Prefix::Allowed(int stage) const {
  const int rank = rank_of_[stage];
  const int f = forwards_[stage];
  for (const Relaxation::Room& room : relaxation_.rooms()[stage]) {
    if (gradients_[room.of] <= f - room.to_gradient) return false;
    if (weights_[room.of] <= f - room.to_weight) return false;
  }
  for (const MemoryRule& rule : problem_.memory) {
    double held = rule.held[stage];
    for (int s : problem_.stages_of[rank]) {
      held += rule.held[s] * (forwards_[s] - gradients_[s]);
      held += rule.kept[s] * (gradients_[s] - weights_[s]);
    }
    if (held > rule.limit[rank] * (1 + kSlack)) return false;
  }
  return true;
}

void Prefix::FindOptions() {
  const Problem& p = problem_;
  options_.clear();
  for (int s = 0; s < p.stages; ++s) {
    const auto add = [&](Op op, double start) {
      const Step step{op, static_cast<uint16_t>(s)};
      options_.push_back({step, rank_of_[s], start, start + p.duration(step)});
    };
    const int f = forwards_[s];
    const int i = gradients_[s];
    const int w = weights_[s];
    const bool has_input = s == 0 || forwards_[s - 1] > f;
    if (f < p.micro_batches && has_input && !put_off_[s] && Allowed(s)) {
      add(Op::kForward, heads_.forward[p.cell(s, f)]);
    }
    if (i < f && (s + 1 == p.stages || gradients_[s + 1] > i)) {
      add(Op::kInputGrad, heads_.gradient[p.cell(s, i)]);
    }
    // Of equal W, it does not matter which comes first.
    const int same = same_weights_[s];
    const bool other_first = same >= 0 && weights_[same] < gradients_[same];
    if (w < i && !other_first) add(Op::kWeightGrad, heads_.weight[p.cell(s, w)]);
  }
}

void Prefix::FindBranches(std::vector<Option>* branches, int* put_off) {
  FindOptions();
  branches->clear();
  *put_off = -1;
  const auto first =
      std::min_element(options_.begin(), options_.end(), [](const Option& a, const Option& b) {
        return a.end < b.end || (a.end == b.end && a.start < b.start);
      });
  if (first == options_.end()) return;
  for (const Option& option : options_) {
    const bool competes = option.rank == first->rank && option.start < first->end;
    if (competes || &option == &*first) branches->push_back(option);
  }
  if (!may_put_off_ || first->step.op != Op::kForward) return;
  const int stage = first->step.stage;
  for (int s : problem_.stages_of[first->rank]) {
    // A later stage must be behind to have anything to run before this F.
    const int most = s < stage ? problem_.micro_batches : forwards_[stage];
    if (s != stage && forwards_[s] < most) *put_off = stage;
  }
}

bool Prefix::PutOff(int stage) {
  const size_t cell = problem_.cell(stage, forwards_[stage]);
  const int rank = rank_of_[stage];
  free_[rank] = heads_.forward[cell] + problem_.forward[stage];
  put_off_[stage] = 1;
  if (!FindHeads()) return false;
  std::swap(heads_, grown_);
  bounds_[rank] = RankBound(rank, heads_);
  return bounds_[rank] < limit_;
}

void Prefix::Grow(const Option& option) {
  option_ = option;
  free_before_ = free_[option.rank];
  put_off_before_ = put_off_;
  const int s = option.step.stage;
  free_[option.rank] = option.end;
  if (option.step.op == Op::kForward) {
    for (int other : problem_.stages_of[option.rank]) put_off_[other] = 0;
    const int k = forwards_[s]++;
    if (s + 1 == problem_.stages) return;
    forward_input_[problem_.cell(s + 1, k)] = option.end + problem_.hop[s];
  } else if (option.step.op == Op::kInputGrad) {
    const int k = gradients_[s]++;
    if (s > 0) gradient_input_[problem_.cell(s - 1, k)] = option.end + problem_.hop[s - 1];
  } else {
    ++weights_[s];
  }
}

void Prefix::Shrink() {
  free_[option_.rank] = free_before_;
  std::swap(put_off_, put_off_before_);
  auto& counts = option_.step.op == Op::kForward     ? forwards_
                 : option_.step.op == Op::kInputGrad ? gradients_
                                                     : weights_;
  --counts[option_.step.stage];
}

bool Prefix::FindState(PrefixState* state) {
  if (!FindHeads()) return false;
  Describe(state);
  return true;
}

bool Prefix::FindBound(PrefixState* state) {
  state->bounds = bounds_;
  state->bounds[option_.rank] = RankBound(option_.rank, grown_);
  return state->bounds[option_.rank] < limit_;
}

// The relaxation, from what has run on. Returns false when it does not end below the limit.
bool Prefix::FindHeads() {
  const int done = *std::min_element(weights_.begin(), weights_.end());
  for (int k = done; k < problem_.micro_batches; ++k) {
    if (!FindForwardHeads(k) || !FindBackwardHeads(k)) return false;
  }
  return true;
}

bool Prefix::FindForwardHeads(int k) {
  const Problem& p = problem_;
  auto& [forward, gradient, weight] = grown_;
  for (int s = 0; s < p.stages; ++s) {
    if (k < forwards_[s]) continue;
    const size_t cell = p.cell(s, k);
    double start = free_[rank_of_[s]];
    if (s > 0 && k < forwards_[s - 1]) start = std::max(start, forward_input_[cell]);
    if (s > 0 && k >= forwards_[s - 1]) {
      start = std::max(start, forward[p.cell(s - 1, k)] + p.forward[s - 1] + p.hop[s - 1]);
    }
    if (k > forwards_[s]) start = std::max(start, forward[cell - 1] + p.forward[s]);
    for (const auto& [of, to_gradient, to_weight] : relaxation_.rooms()[s]) {
      if (const int before = k - to_gradient; before >= gradients_[of]) {
        start = std::max(start, gradient[p.cell(of, before)] + p.input_grad[of]);
      }
      if (const int before = k - to_weight; before >= weights_[of]) {
        start = std::max(start, weight[p.cell(of, before)] + p.weight_grad[of]);
      }
    }
    forward[cell] = start;
    if (start + p.forward[s] + relaxation_.tails().forward[cell] >= limit_) return false;
  }
  return true;
}

bool Prefix::FindBackwardHeads(int k) {
  const Problem& p = problem_;
  auto& [forward, gradient, weight] = grown_;
  const auto& tails = relaxation_.tails();
  for (int s = p.stages - 1; s >= 0; --s) {
    const size_t cell = p.cell(s, k);
    const double free = free_[rank_of_[s]];
    if (k >= gradients_[s]) {
      double start = free;
      if (k >= forwards_[s]) start = std::max(start, forward[cell] + p.forward[s]);
      if (s + 1 < p.stages && k < gradients_[s + 1]) start = std::max(start, gradient_input_[cell]);
      if (s + 1 < p.stages && k >= gradients_[s + 1]) {
        start = std::max(start, gradient[p.cell(s + 1, k)] + p.input_grad[s + 1] + p.hop[s]);
      }
      if (k > gradients_[s]) start = std::max(start, gradient[cell - 1] + p.input_grad[s]);
      gradient[cell] = start;
      if (start + p.input_grad[s] + tails.input_grad[cell] >= limit_) return false;
    }
    if (k >= weights_[s]) {
      double start = free;
      if (k >= gradients_[s]) start = std::max(start, gradient[cell] + p.input_grad[s]);
      if (k > weights_[s]) start = std::max(start, weight[cell - 1] + p.weight_grad[s]);
      weight[cell] = start;
      if (start + p.weight_grad[s] + tails.weight_grad[cell] >= limit_) return false;
    }
  }
  return true;
}

double Prefix::RankBound(int rank, const Heads& heads) {
  const auto& tails = relaxation_.tails();
  chains_.clear();
  for (int s : problem_.stages_of[rank]) {
    const auto add = [&](const std::vector<double>& starts, const std::vector<double>& after,
                         int from, double duration) {
      const int left = problem_.micro_batches - from;
      if (left == 0) return;
      const size_t cell = problem_.cell(s, from);
      chains_.push_back({&starts[cell], &after[cell], duration, left, duration});
    };
    add(heads.forward, tails.forward, forwards_[s], problem_.forward[s]);
    add(heads.gradient, tails.input_grad, gradients_[s], problem_.input_grad[s]);
    add(heads.weight, tails.weight_grad, weights_[s], problem_.weight_grad[s]);
  }
  return std::max(OneRankBound(chains_, limit_), free_[rank] - problem_.grace[rank]);
}

double Prefix::value() const {
  double value = 0;
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    value = std::max(value, free_[rank] - problem_.grace[rank]);
  }
  return value;
}

}  // namespace sluice::optimise
