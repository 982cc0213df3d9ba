#include "schedules/optimise/problem/relaxation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::optimise {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

}  // namespace

Relaxation::Relaxation(const Problem& problem) : problem_(problem) {
  FindRooms();
  FindHeads();
  FindTails();
}

void Relaxation::FindRooms() {
  for (int s = 0; s < problem_.stages; ++s) {
    auto& rooms = rooms_.emplace_back();
    for (int of : problem_.stages_of[problem_.placement.rank(s)]) {
      const Room room = RoomFor(s, of);
      if (std::min(room.to_gradient, room.to_weight) < problem_.micro_batches) {
        rooms.push_back(room);
      }
    }
  }
}

// Let l be the lower of `stage` and `of`, h the higher. While F(stage, k) has started and I(of, j)
// has not ended, j < k, there comes a moment (the start of F(stage, k), or of F(of, j) if later) at
// which one of the two micro-batches holds every stage of the rank from l to h, and the k - j
// others from j to k at least l.
Relaxation::Room Relaxation::RoomFor(int stage, int of) const {
  const int all = problem_.micro_batches;
  const int rank = problem_.placement.rank(stage);
  const auto [l, h] = std::minmax(stage, of);
  Room room{of, all, all};
  const auto lower = [&](int& slots, double others, double each) {
    if (each <= 0) return;
    const double whole = 1 + std::floor(std::max(0.0, others) / each * (1 + kSlack));
    if (whole < all) slots = std::min(slots, static_cast<int>(whole));
  };
  for (const MemoryRule& rule : problem_.memory) {
    double own = 0;
    for (int s : problem_.stages_of[rank]) {
      if (s >= l && s <= h) own += rule.held[s];
    }
    const double others = rule.limit[rank] * (1 + kSlack) - own;
    lower(room.to_gradient, others, rule.held[l]);
    // After its I, the share that W needs is still held; of a higher stage it may be all. Where W
    // needs more, the others may still be before their I.
    if (of <= stage) lower(room.to_weight, others, std::min(rule.kept[of], rule.held[of]));
  }
  return room;
}

void Relaxation::FindHeads() {
  const Problem& p = problem_;
  const size_t cells = static_cast<size_t>(p.stages) * static_cast<size_t>(p.micro_batches);
  heads_ = {std::vector<double>(cells), std::vector<double>(cells), std::vector<double>(cells)};
  auto& [forward, gradient, weight] = heads_;
  for (int k = 0; k < p.micro_batches; ++k) {
    for (int s = 0; s < p.stages; ++s) {
      double start = p.head[p.placement.rank(s)];
      if (s == 0 && !p.arrival.empty()) start = std::max(start, p.arrival[k]);
      if (k > 0) start = std::max(start, forward[p.cell(s, k - 1)] + p.forward[s]);
      if (s > 0) {
        start = std::max(start, forward[p.cell(s - 1, k)] + p.forward[s - 1] + p.hop[s - 1]);
      }
      for (const Room& room : rooms_[s]) {
        if (const int before = k - room.to_gradient; before >= 0) {
          start = std::max(start, gradient[p.cell(room.of, before)] + p.input_grad[room.of]);
        }
        if (const int before = k - room.to_weight; before >= 0) {
          start = std::max(start, weight[p.cell(room.of, before)] + p.weight_grad[room.of]);
        }
      }
      forward[p.cell(s, k)] = start;
    }
    for (int s = p.stages - 1; s >= 0; --s) {
      const size_t cell = p.cell(s, k);
      double start = forward[cell] + p.forward[s] + (s + 1 == p.stages ? p.turn : 0);
      if (k > 0) start = std::max(start, gradient[p.cell(s, k - 1)] + p.input_grad[s]);
      if (s + 1 < p.stages) {
        start = std::max(start, gradient[p.cell(s + 1, k)] + p.input_grad[s + 1] + p.way_back[s]);
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
  auto& forward = tails_.forward;
  auto& gradient = tails_.input_grad;
  auto& weight = tails_.weight_grad;
  const int m = p.micro_batches;
  // The least time that must pass after the end of I (W) of `of`, because an F waits for its
  // memory.
  const auto room_after = [&](int of, int k, int Room::*slots) {
    double after = -kFar;
    for (int s : p.stages_of[p.placement.rank(of)]) {
      for (const Room& room : rooms_[s]) {
        const int next = k + room.*slots;
        if (room.of == of && next < m) {
          after = std::max(after, forward[p.cell(s, next)] + p.forward[s]);
        }
      }
    }
    return after;
  };
  for (int k = m - 1; k >= 0; --k) {
    for (int s = 0; s < p.stages; ++s) {
      const size_t cell = p.cell(s, k);
      double after = -p.grace[p.placement.rank(s)];
      if (k + 1 < m) after = std::max(after, weight[p.cell(s, k + 1)] + p.weight_grad[s]);
      after = std::max(after, room_after(s, k, &Room::to_weight));
      weight[cell] = after;
      after += p.weight_grad[s];
      if (k + 1 < m) after = std::max(after, gradient[p.cell(s, k + 1)] + p.input_grad[s]);
      if (s > 0) {
        after =
            std::max(after, gradient[p.cell(s - 1, k)] + p.input_grad[s - 1] + p.way_back[s - 1]);
      }
      if (s == 0 && !p.after.empty()) after = std::max(after, p.after[k]);
      after = std::max(after, room_after(s, k, &Room::to_gradient));
      gradient[cell] = after;
    }
    for (int s = p.stages - 1; s >= 0; --s) {
      double after = gradient[p.cell(s, k)] + p.input_grad[s] + (s + 1 == p.stages ? p.turn : 0);
      if (k + 1 < m) after = std::max(after, forward[p.cell(s, k + 1)] + p.forward[s]);
      if (s + 1 < p.stages) {
        after = std::max(after, forward[p.cell(s + 1, k)] + p.forward[s + 1] + p.hop[s]);
      }
      forward[p.cell(s, k)] = after;
    }
  }
}

}  // namespace sluice::optimise
