#include "schedules/optimise/dispatch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

namespace sluice::optimise {
namespace {

constexpr int kNone = -1;

class Dispatcher {
 public:
  Dispatcher(const Problem& problem, const DispatchRules& rules)
      : problem_(problem),
        rules_(rules),
        forward_end_(cells(), 0),
        gradient_end_(cells(), 0),
        forwards_(problem.stages, 0),
        gradients_(problem.stages, 0),
        weights_(problem.stages, 0),
        cap_(problem.stages, problem.micro_batches),
        free_at_(problem.ranks, 0),
        idle_(problem.ranks, 0) {
    FindCycle();
    if (rules.in_flight != kNever && cycle_ > 0) SetCaps();
    for (int rank = 0; rank < problem.ranks; ++rank) {
      memory_.emplace_back(problem, rank);
      schedule_.order.emplace_back().reserve(3 * problem.stages_of[rank].size() *
                                             static_cast<size_t>(problem.micro_batches));
    }
  }

  Schedule Run();

 private:
  struct Choice {
    int gradient = kNone;         // stage whose I has arrived
    int forward = kNone;          // stage whose F has arrived and may start
    bool starved = false;         // an F has arrived that only lacks memory
    double gradient_in = kNever;  // when the next I arrives
    double forward_in = kNever;   // when the next F that may start arrives
  };

  size_t cells() const {
    return static_cast<size_t>(problem_.stages) * static_cast<size_t>(problem_.micro_batches);
  }
  void FindCycle();
  void SetCaps();
  Choice Look(int rank, double now) const;
  void LookAtForward(int rank, int stage, double now, Choice* choice) const;
  bool Safe(int rank, int stage) const;
  void Decide(int rank, double now);
  int PendingWeight(int rank) const;
  bool WorthWaiting(int rank, double now, double arrival, double duration, double patience) const;
  void Start(int rank, Op op, int stage, double now);
  void Announce(int consumer, double arrival);
  void WaitUntil(int rank, double time) { events_.emplace(time, rank); }

  using Event = std::pair<double, int>;  // time, rank
  const Problem& problem_;
  const DispatchRules& rules_;
  std::vector<double> forward_end_, gradient_end_;   // [cell]
  std::vector<int> forwards_, gradients_, weights_;  // [stage] started so far
  double cycle_ = 0;                                 // the busiest rank's work on one micro-batch
  std::vector<int> cap_;                             // [stage]
  std::vector<double> free_at_, idle_;               // [rank]
  std::vector<RankMemory> memory_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Schedule schedule_;
};

void Dispatcher::FindCycle() {
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    double work = 0;
    for (int s : problem_.stages_of[rank]) {
      work += problem_.forward[s] + problem_.input_grad[s] + problem_.weight_grad[s];
    }
    cycle_ = std::max(cycle_, work);
  }
}

// A stage needs as many micro-batches in flight as the busiest rank works through during one's way
// from the stage to the last one and back.
void Dispatcher::SetCaps() {
  double round_trip = 0;
  for (int s = problem_.stages - 1; s >= 0; --s) {
    round_trip += problem_.forward[s] + problem_.input_grad[s];
    if (s + 1 < problem_.stages) round_trip += 2 * problem_.hop[s];
    const double share = 2 * s >= problem_.stages ? rules_.late_share : 1;
    const double flight = std::ceil(rules_.in_flight * share * round_trip / cycle_);
    cap_[s] = static_cast<int>(
        std::clamp<double>(flight, 1, static_cast<double>(problem_.micro_batches)));
  }
}

Schedule Dispatcher::Run() {
  for (int rank = 0; rank < problem_.ranks; ++rank) WaitUntil(rank, 0);
  while (!events_.empty()) {
    const auto [now, rank] = events_.top();
    events_.pop();
    if (now >= free_at_[rank]) Decide(rank, now);
  }
  schedule_.value = 0;
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    schedule_.value = std::max(schedule_.value, free_at_[rank] - problem_.grace[rank]);
  }
  return std::move(schedule_);
}

// With several stages a rank must not fill up with micro-batches that then lack room for their
// later stages. It stays safe when, with every F that it starts, each micro-batch in flight on it
// could still get through once all before it are done: what is held from that micro-batch on, plus
// what it still needs, fits. Between the stages' counts of F both sides only get smaller, so these
// counts are the only micro-batches to look at.
bool Dispatcher::Safe(int rank, int stage) const {
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
      if (total > rule.limit[rank] * (1 + kSlack)) return false;
    }
  }
  return true;
}

void Dispatcher::LookAtForward(int rank, int stage, double now, Choice* choice) const {
  const int k = forwards_[stage];
  if (k == problem_.micro_batches || k - gradients_[stage] >= cap_[stage]) return;
  if (stage > 0 && forwards_[stage - 1] <= k) return;
  const double arrival = stage == 0
                             ? rules_.pace * cycle_ * std::max(0, k - rules_.burst)
                             : forward_end_[problem_.cell(stage - 1, k)] + problem_.hop[stage - 1];
  const bool better = choice->forward == kNone || rules_.deep_first;
  if (arrival > now) {
    if (arrival < choice->forward_in && Safe(rank, stage)) choice->forward_in = arrival;
  } else if (better && Safe(rank, stage)) {
    if (memory_[rank].Fits(stage)) {
      choice->forward = stage;
    } else {
      choice->starved = true;
    }
  }
}

Dispatcher::Choice Dispatcher::Look(int rank, double now) const {
  Choice choice;
  for (int stage : problem_.stages_of[rank]) {
    LookAtForward(rank, stage, now, &choice);
    const int k = gradients_[stage];
    if (k == forwards_[stage]) continue;
    const bool last = stage + 1 == problem_.stages;
    if (!last && gradients_[stage + 1] <= k) continue;
    const double arrival =
        last ? 0 : gradient_end_[problem_.cell(stage + 1, k)] + problem_.hop[stage];
    if (arrival > now) {
      choice.gradient_in = std::min(choice.gradient_in, arrival);
    } else if (choice.gradient == kNone || !rules_.deep_first) {
      choice.gradient = stage;
    }
  }
  return choice;
}

// The stage of the rank with most W put off.
int Dispatcher::PendingWeight(int rank) const {
  int best = kNone;
  int most = 0;
  for (int s : problem_.stages_of[rank]) {
    const int pending = gradients_[s] - weights_[s];
    if (pending <= most) continue;
    most = pending;
    best = s;
  }
  return best;
}

bool Dispatcher::WorthWaiting(int rank, double now, double arrival, double duration,
                              double patience) const {
  const double wait = arrival - now;
  return wait < duration && wait <= patience * duration && idle_[rank] + wait <= rules_.idle_budget;
}

void Dispatcher::Decide(int rank, double now) {
  const Choice choice = Look(rank, now);
  const bool both = choice.gradient != kNone && choice.forward != kNone;
  if (choice.gradient != kNone && !(both && rules_.forward_first)) {
    return Start(rank, Op::kInputGrad, choice.gradient, now);
  }
  if (choice.forward != kNone) {
    const double duration = problem_.forward[choice.forward];
    if (!both && WorthWaiting(rank, now, choice.gradient_in, duration, rules_.forward_patience)) {
      return WaitUntil(rank, choice.gradient_in);
    }
    return Start(rank, Op::kForward, choice.forward, now);
  }
  const double next = std::min(choice.gradient_in, choice.forward_in);
  const int weight = PendingWeight(rank);
  if (weight != kNone) {
    const double duration = problem_.weight_grad[weight];
    if (choice.starved || !WorthWaiting(rank, now, next, duration, rules_.patience)) {
      return Start(rank, Op::kWeightGrad, weight, now);
    }
  }
  if (next < kNever) WaitUntil(rank, next);
}

void Dispatcher::Start(int rank, Op op, int stage, double now) {
  const Step step{op, static_cast<uint16_t>(stage)};
  auto& row = schedule_.order[rank];
  if (!row.empty()) idle_[rank] += now - free_at_[rank];
  row.push_back(step);
  memory_[rank].Apply(step);
  const double end = now + problem_.duration(step);
  free_at_[rank] = end;
  WaitUntil(rank, end);
  if (op == Op::kForward) {
    forward_end_[problem_.cell(stage, forwards_[stage]++)] = end;
    if (stage + 1 < problem_.stages) Announce(stage + 1, end + problem_.hop[stage]);
  } else if (op == Op::kInputGrad) {
    gradient_end_[problem_.cell(stage, gradients_[stage]++)] = end;
    if (stage > 0) Announce(stage - 1, end + problem_.hop[stage - 1]);
  } else {
    ++weights_[stage];
  }
}

// Makes the consumer's rank look when `arrival` comes, unless it is busy then and looks later
// anyway.
void Dispatcher::Announce(int consumer, double arrival) {
  const int rank = problem_.placement.rank(consumer);
  if (free_at_[rank] <= arrival) WaitUntil(rank, arrival);
}

}  // namespace

Schedule Dispatch(const Problem& problem, const DispatchRules& rules) {
  return Dispatcher(problem, rules).Run();
}

}  // namespace sluice::optimise
