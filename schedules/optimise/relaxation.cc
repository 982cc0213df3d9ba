#include "schedules/optimise/relaxation.h"

#include <algorithm>
#include <cmath>

namespace sluice::optimise {

Relaxation::Relaxation(const Problem& problem) : problem_(problem) {
  CountSlots();
  FindHeads();
  FindTails();
}

void Relaxation::CountSlots() {
  const int all = problem_.micro_batches;
  gradient_slots_.assign(problem_.stages, all);
  weight_slots_.assign(problem_.stages, all);
  const auto lower = [&](int& slots, double room) {
    const double whole = std::floor(room * (1 + kSlack));
    if (whole < all) slots = std::min(slots, static_cast<int>(whole));
  };
  for (const MemoryRule& rule : problem_.memory) {
    for (int s = 0; s < problem_.stages; ++s) {
      const double limit = rule.limit[problem_.placement.rank(s)];
      const double held = rule.held[s];
      const double kept = rule.kept[s];
      if (held > 0) lower(gradient_slots_[s], limit / held);
      // Beside the micro-batch that starts, the others take at least what is kept of each.
      if (kept > 0) lower(weight_slots_[s], 1 + std::max(0.0, limit - held) / kept);
    }
  }
}

void Relaxation::FindHeads() {
  const Problem& p = problem_;
  const size_t cells = static_cast<size_t>(p.stages) * static_cast<size_t>(p.micro_batches);
  heads_ = {std::vector<double>(cells), std::vector<double>(cells), std::vector<double>(cells)};
  auto& [forward, gradient, weight] = heads_;
  for (int k = 0; k < p.micro_batches; ++k) {
    for (int s = 0; s < p.stages; ++s) {
      double start = p.head[p.placement.rank(s)];
      if (k > 0) start = std::max(start, forward[p.cell(s, k - 1)] + p.forward[s]);
      if (s > 0) {
        start = std::max(start, forward[p.cell(s - 1, k)] + p.forward[s - 1] + p.hop[s - 1]);
      }
      if (const int before = k - gradient_slots_[s]; before >= 0) {
        start = std::max(start, gradient[p.cell(s, before)] + p.input_grad[s]);
      }
      if (const int before = k - weight_slots_[s]; before >= 0) {
        start = std::max(start, weight[p.cell(s, before)] + p.weight_grad[s]);
      }
      forward[p.cell(s, k)] = start;
    }
    for (int s = p.stages - 1; s >= 0; --s) {
      const size_t cell = p.cell(s, k);
      double start = forward[cell] + p.forward[s];
      if (k > 0) start = std::max(start, gradient[p.cell(s, k - 1)] + p.input_grad[s]);
      if (s + 1 < p.stages) {
        start = std::max(start, gradient[p.cell(s + 1, k)] + p.input_grad[s + 1] + p.hop[s]);
      }
      gradient[cell] = start;
      weight[cell] = start + p.input_grad[s];
      if (k > 0) {
        weight[cell] = std::max(weight[cell], weight[p.cell(s, k - 1)] + p.weight_grad[s]);
      }
    }
  }
}

// The same backwards in time.
void Relaxation::FindTails() {
  const Problem& p = problem_;
  const size_t cells = heads_.forward.size();
  tails_ = {std::vector<double>(cells), std::vector<double>(cells), std::vector<double>(cells)};
  auto& [forward, gradient, weight] = tails_;
  const int m = p.micro_batches;
  for (int k = m - 1; k >= 0; --k) {
    for (int s = 0; s < p.stages; ++s) {
      const size_t cell = p.cell(s, k);
      double after = -p.grace[p.placement.rank(s)];
      if (k + 1 < m) after = std::max(after, weight[p.cell(s, k + 1)] + p.weight_grad[s]);
      if (const int next = k + weight_slots_[s]; next < m) {
        after = std::max(after, forward[p.cell(s, next)] + p.forward[s]);
      }
      weight[cell] = after;
      after += p.weight_grad[s];
      if (k + 1 < m) after = std::max(after, gradient[p.cell(s, k + 1)] + p.input_grad[s]);
      if (s > 0) {
        after = std::max(after, gradient[p.cell(s - 1, k)] + p.input_grad[s - 1] + p.hop[s - 1]);
      }
      if (const int next = k + gradient_slots_[s]; next < m) {
        after = std::max(after, forward[p.cell(s, next)] + p.forward[s]);
      }
      gradient[cell] = after;
    }
    for (int s = p.stages - 1; s >= 0; --s) {
      double after = gradient[p.cell(s, k)] + p.input_grad[s];
      if (k + 1 < m) after = std::max(after, forward[p.cell(s, k + 1)] + p.forward[s]);
      if (s + 1 < p.stages) {
        after = std::max(after, forward[p.cell(s + 1, k)] + p.forward[s + 1] + p.hop[s]);
      }
      forward[p.cell(s, k)] = after;
    }
  }
}

}  // namespace sluice::optimise
