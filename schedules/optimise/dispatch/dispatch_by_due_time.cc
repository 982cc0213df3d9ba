#include "schedules/optimise/dispatch/dispatch_by_due_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/optimise/dispatch/dispatch_state.h"

namespace sluice::optimise {
namespace {

constexpr int kNone = -1;

// An action that a rank could run, and when it is due.
struct Candidate {
  Op op = Op::kForward;
  int stage = kNone;
  double due = kNever;
};

class DueTimeDispatcher {
 public:
  DueTimeDispatcher(const Problem& problem, const DueTimes& rules,
                    const std::vector<char>& prompt_weights)
      : problem_(problem), rules_(rules), state_(problem, prompt_weights), cap_(problem.stages) {
    FindTripTimes();
    SetCaps();
  }

  Schedule Run() {
    return state_.Run([this](int rank, double now) { Decide(rank, now); });
  }

 private:
  // What a rank sees when it is free.
  struct View {
    Candidate arrived;     // the one that is due first of those that may start
    Candidate coming;      // the one that arrives next
    double at = kNever;    // when that is
    bool starved = false;  // an F or I has arrived that only lacks memory
  };

  void FindTripTimes();
  void SetCaps();
  View Look(int rank, double now) const;
  static void Offer(const Candidate& candidate, double arrival, double now, View* view);
  Candidate PendingWeight(int rank) const;
  void Decide(int rank, double now);
  // `since_start`: when the action would start if its micro-batch were alone.
  double Due(int micro_batch, double since_start) const {
    return micro_batch * state_.cycle() + since_start * rules_.slowness;
  }

  const Problem& problem_;
  const DueTimes& rules_;
  DispatchState state_;
  // [stage] when F and I of a micro-batch start that is alone in the pipeline.
  std::vector<double> forward_at_, gradient_at_;
  std::vector<int> cap_;  // [stage] of micro-batches in flight
};

void DueTimeDispatcher::FindTripTimes() {
  const int stages = problem_.stages;
  forward_at_.resize(stages);
  gradient_at_.resize(stages);
  double at = 0;
  for (int s = 0; s < stages; ++s) {
    forward_at_[s] = at;
    at += problem_.forward[s] + (s + 1 < stages ? problem_.hop[s] : 0);
  }
  for (int s = stages - 1; s >= 0; --s) {
    gradient_at_[s] = at;
    at += problem_.input_grad[s] + (s > 0 ? problem_.hop[s - 1] : 0);
  }
}

// A stage may have as many micro-batches in flight as start while one of them is between F and I,
// and the spare ones. Where a rank has no room for that many of all its stages, each stage gets the
// same share of them: if one stage took the memory of the others, little more than one micro-batch
// at a time would get through.
void DueTimeDispatcher::SetCaps() {
  std::vector<double> wanted(problem_.stages);
  for (int s = 0; s < problem_.stages; ++s) {
    const double trip =
        (gradient_at_[s] - forward_at_[s]) * rules_.slowness + problem_.input_grad[s];
    wanted[s] = state_.cycle() > 0 ? std::ceil(trip / state_.cycle()) + rules_.spare : kNever;
    wanted[s] = std::min<double>(wanted[s], problem_.micro_batches);
  }
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    double part = 1;
    for (const MemoryRule& rule : problem_.memory) {
      double all = 0;
      for (int s : problem_.stages_of[rank]) all += wanted[s] * rule.held[s];
      if (all > rule.limit[rank]) part = std::min(part, rule.limit[rank] / all);
    }
    for (int s : problem_.stages_of[rank]) {
      cap_[s] = std::max(1, static_cast<int>(part * wanted[s]));
    }
  }
}

void DueTimeDispatcher::Offer(const Candidate& candidate, double arrival, double now, View* view) {
  if (arrival > now) {
    if (arrival >= view->at) return;
    view->at = arrival;
    view->coming = candidate;
  } else if (candidate.due < view->arrived.due) {
    view->arrived = candidate;
  }
}

DueTimeDispatcher::View DueTimeDispatcher::Look(int rank, double now) const {
  View view;
  for (int s : problem_.stages_of[rank]) {
    const int f = state_.forwards(s), g = state_.gradients(s);
    const double forward_in = f - g < cap_[s] ? state_.ForwardArrival(s) : kNever;
    if (forward_in != kNever && state_.Safe(rank, s)) {
      if (state_.Admits(rank, s)) {
        Offer({Op::kForward, s, Due(f, forward_at_[s])}, forward_in, now, &view);
      } else if (forward_in <= now) {
        view.starved = true;
      }
    }
    const double gradient_in = state_.GradientArrival(s);
    if (gradient_in == kNever) continue;
    const bool fits = state_.GradientFits(rank, s);
    if (gradient_in <= now && !fits) view.starved = true;
    Offer({fits ? Op::kInputGrad : Op::kBackward, s, Due(g, gradient_at_[s])}, gradient_in, now,
          &view);
  }
  return view;
}

Candidate DueTimeDispatcher::PendingWeight(int rank) const {
  Candidate first;
  for (int s : problem_.stages_of[rank]) {
    const int w = state_.weights(s);
    if (w == state_.gradients(s)) continue;
    const double due =
        Due(w, gradient_at_[s]) + problem_.input_grad[s] + rules_.late_weights * state_.cycle();
    if (due < first.due) first = {Op::kWeightGrad, s, due};
  }
  return first;
}

void DueTimeDispatcher::Decide(int rank, double now) {
  const View view = Look(rank, now);
  const Candidate weight = PendingWeight(rank);
  const bool make_room = view.starved && weight.stage != kNone;
  const Candidate& next = make_room || weight.due < view.arrived.due ? weight : view.arrived;
  if (next.stage == kNone) {
    if (view.at != kNever) state_.WaitUntil(rank, view.at);
    return;
  }
  const double duration = problem_.duration({next.op, static_cast<uint16_t>(next.stage)});
  if (!make_room && view.coming.due < next.due && view.at - now <= rules_.patience * duration) {
    return state_.WaitUntil(rank, view.at);
  }
  state_.Start(rank, next.op, next.stage, now);
}

}  // namespace

Schedule DispatchByDueTime(const Problem& problem, const DueTimes& rules,
                           const std::vector<char>& prompt_weights) {
  return DueTimeDispatcher(problem, rules, prompt_weights).Run();
}

}  // namespace sluice::optimise
