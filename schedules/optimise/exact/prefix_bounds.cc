// What no completion of a prefix can do better than.
#include <algorithm>

#include "schedules/optimise/exact/prefix.h"

namespace sluice::optimise {

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
  const Problem& p = cheapest_;
  auto& [forward, gradient, weight] = grown_;
  for (int s = 0; s < p.stages; ++s) {
    if (k < forwards_[s]) continue;
    const size_t cell = p.cell(s, k);
    double start = free_[rank_of_[s]];
    if (s == 0 && !p.arrival.empty()) start = std::max(start, p.arrival[k]);
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
  const Problem& p = cheapest_;
  auto& [forward, gradient, weight] = grown_;
  const auto& tails = relaxation_.tails();
  for (int s = p.stages - 1; s >= 0; --s) {
    const size_t cell = p.cell(s, k);
    const double free = free_[rank_of_[s]];
    if (k >= gradients_[s]) {
      double start = free;
      const bool last = s + 1 == p.stages;
      if (k >= forwards_[s]) {
        start = std::max(start, forward[cell] + p.forward[s] + (last ? p.turn : 0));
      }
      if (last ? p.turn > 0 && k < forwards_[s] : k < gradients_[s + 1]) {
        start = std::max(start, gradient_input_[cell]);
      } else if (!last) {
        start = std::max(start, gradient[p.cell(s + 1, k)] + p.input_grad[s + 1] + p.way_back[s]);
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
  double owed = 0;
  for (int s : problem_.stages_of[rank]) {
    const auto add = [&](const std::vector<double>& starts, const std::vector<double>& after,
                         int from, double duration) {
      const int left = problem_.micro_batches - from;
      if (left == 0) return;
      const size_t cell = problem_.cell(s, from);
      chains_.push_back({&starts[cell], &after[cell], duration, left, duration});
    };
    add(heads.forward, tails.forward, forwards_[s], cheapest_.forward[s]);
    add(heads.gradient, tails.input_grad, gradients_[s], cheapest_.input_grad[s]);
    add(heads.weight, tails.weight_grad, weights_[s], cheapest_.weight_grad[s]);
    // What the W of an I that has run costs more, whenever that is.
    const double more = problem_.weight_grad[s] - cheapest_.weight_grad[s];
    owed += more * (gradients_[s] - weights_[s]);
  }
  tail_ = -problem_.grace[rank];
  if (owed > 0) chains_.push_back({&free_[rank], &tail_, owed, 1, owed});
  return std::max(OneRankBound(chains_, limit_), free_[rank] - problem_.grace[rank]);
}

}  // namespace sluice::optimise
