#include "schedules/optimise/dispatch/dispatch_by_preference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/optimise/dispatch/dispatch_state.h"

namespace sluice::optimise {
namespace {

constexpr int kNone = -1;

class PreferenceDispatcher {
 public:
  PreferenceDispatcher(const Problem& problem, const Preferences& rules,
                       const std::vector<char>& prompt_weights)
      : problem_(problem),
        rules_(rules),
        state_(problem, prompt_weights),
        cap_(problem.stages, problem.micro_batches) {
    if (rules.in_flight != kNever && state_.cycle() > 0) SetCaps();
  }

  Schedule Run() {
    return state_.Run([this](int rank, double now) { Decide(rank, now); });
  }

 private:
  struct Choice {
    int gradient = kNone;         // stage whose I has arrived
    int forward = kNone;          // stage whose F has arrived and may start
    bool starved = false;         // an F has arrived that only lacks memory
    double gradient_in = kNever;  // when the next I arrives
    double forward_in = kNever;   // when the next F that may start arrives
  };

  void SetCaps();
  Choice Look(int rank, double now) const;
  void LookAtForward(int rank, int stage, double now, Choice* choice) const;
  void Decide(int rank, double now);
  void StartGradient(int rank, int stage, double now);
  bool Fuses(int stage) const;
  int LateWeight(int rank) const;
  int PendingWeight(int rank) const;
  bool WorthWaiting(int rank, double now, double arrival, double duration, double patience) const;

  const Problem& problem_;
  const Preferences& rules_;
  DispatchState state_;
  std::vector<int> cap_;  // [stage]
};

// A stage needs as many micro-batches in flight as the busiest rank works through while one of them
// goes on to the last stage and comes back.
void PreferenceDispatcher::SetCaps() {
  double round_trip = 0;
  for (int s = problem_.stages - 1; s >= 0; --s) {
    round_trip += problem_.forward[s] + problem_.input_grad[s];
    if (s + 1 < problem_.stages) round_trip += 2 * problem_.hop[s];
    const double share = 2 * s >= problem_.stages ? rules_.late_share : 1;
    const double flight = std::ceil(rules_.in_flight * share * round_trip / state_.cycle());
    cap_[s] = static_cast<int>(
        std::clamp<double>(flight, 1, static_cast<double>(problem_.micro_batches)));
  }
}

void PreferenceDispatcher::LookAtForward(int rank, int stage, double now, Choice* choice) const {
  const int k = state_.forwards(stage);
  if (k - state_.gradients(stage) >= cap_[stage]) return;
  double arrival = state_.ForwardArrival(stage);
  if (arrival == kNever) return;
  if (stage == 0) arrival = rules_.pace * state_.cycle() * std::max(0, k - rules_.burst);
  const bool better = choice->forward == kNone || rules_.deep_first;
  if (arrival > now) {
    if (arrival < choice->forward_in && state_.Safe(rank, stage)) choice->forward_in = arrival;
  } else if (better && state_.Safe(rank, stage)) {
    if (state_.Admits(rank, stage)) {
      choice->forward = stage;
    } else {
      choice->starved = true;
    }
  }
}

PreferenceDispatcher::Choice PreferenceDispatcher::Look(int rank, double now) const {
  Choice choice;
  for (int stage : problem_.stages_of[rank]) {
    LookAtForward(rank, stage, now, &choice);
    const double arrival = state_.GradientArrival(stage);
    if (arrival > now) {
      choice.gradient_in = std::min(choice.gradient_in, arrival);
    } else if (choice.gradient == kNone || !rules_.deep_first) {
      choice.gradient = stage;
    }
  }
  return choice;
}

// The stage of the rank that has put off the most W; kNone where none has.
int PreferenceDispatcher::PendingWeight(int rank) const {
  int best = kNone;
  int most = 0;
  for (int s : problem_.stages_of[rank]) {
    const int pending = state_.gradients(s) - state_.weights(s);
    if (pending <= most) continue;
    most = pending;
    best = s;
  }
  return best;
}

bool PreferenceDispatcher::WorthWaiting(int rank, double now, double arrival, double duration,
                                        double patience) const {
  const double wait = arrival - now;
  return wait < duration && wait <= patience * duration &&
         state_.idle(rank) + wait <= rules_.idle_budget;
}

// Whether the rules want B rather than I for the next micro-batch of the stage.
bool PreferenceDispatcher::Fuses(int stage) const {
  if (!problem_.fuses(stage)) return false;
  const int k = state_.gradients(stage);
  return k >= rules_.split_first * (problem_.stages - stage) &&
         k < problem_.micro_batches - rules_.split_last * (stage + 1);
}

// A stage of the rank whose next I could be a B, were it not for a W that waits; kNone where there
// is none.
int PreferenceDispatcher::LateWeight(int rank) const {
  for (int s : problem_.stages_of[rank]) {
    const bool waits = state_.weights(s) < state_.gradients(s);
    if (waits && state_.gradients(s) < problem_.micro_batches && Fuses(s)) return s;
  }
  return kNone;
}

// Runs the I of a gradient that has arrived, or its B. Where I has no room, a W that waits makes
// some; where none waits, B needs none.
void PreferenceDispatcher::StartGradient(int rank, int stage, double now) {
  const bool waits = state_.weights(stage) < state_.gradients(stage);
  if (!waits && Fuses(stage)) return state_.Start(rank, Op::kBackward, stage, now);
  if (state_.GradientFits(rank, stage)) return state_.Start(rank, Op::kInputGrad, stage, now);
  const int weight = PendingWeight(rank);
  if (weight != kNone) return state_.Start(rank, Op::kWeightGrad, weight, now);
  state_.Start(rank, Op::kBackward, stage, now);
}

void PreferenceDispatcher::Decide(int rank, double now) {
  const Choice choice = Look(rank, now);
  const bool both = choice.gradient != kNone && choice.forward != kNone;
  if (choice.gradient != kNone && !(both && rules_.forward_first)) {
    return StartGradient(rank, choice.gradient, now);
  }
  if (const int late = LateWeight(rank); late != kNone) {
    return state_.Start(rank, Op::kWeightGrad, late, now);
  }
  if (choice.forward != kNone) {
    const double duration = problem_.forward[choice.forward];
    if (!both && WorthWaiting(rank, now, choice.gradient_in, duration, rules_.forward_patience)) {
      return state_.WaitUntil(rank, choice.gradient_in);
    }
    return state_.Start(rank, Op::kForward, choice.forward, now);
  }
  const double next = std::min(choice.gradient_in, choice.forward_in);
  const int weight = PendingWeight(rank);
  if (weight != kNone) {
    const double duration = problem_.weight_grad[weight];
    if (choice.starved || !WorthWaiting(rank, now, next, duration, rules_.patience)) {
      return state_.Start(rank, Op::kWeightGrad, weight, now);
    }
  }
  if (next < kNever) state_.WaitUntil(rank, next);
}

}  // namespace

Schedule DispatchByPreference(const Problem& problem, const Preferences& rules,
                              const std::vector<char>& prompt_weights) {
  return PreferenceDispatcher(problem, rules, prompt_weights).Run();
}

}  // namespace sluice::optimise
