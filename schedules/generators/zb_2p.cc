#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/generators/generators.h"
#include "schedules/simulate/stage_costs.h"

namespace sluice {
namespace {

// What the paper leaves open; all combinations are tried.
struct Choices {
  // Stay idle before the first I, rather than run one more F that would delay it.
  bool idle_before_first_backward;
  // Hold an F back where the next stage cannot use it soon.
  bool hold_forwards_back;
  // Fill small gaps with a W that is longer than the gap.
  bool fill_small_gaps;
};

std::vector<Choices> AllChoices() {
  std::vector<Choices> all;
  for (const bool fill : {true, false}) {
    for (const bool hold : {true, false}) {
      for (const bool idle : {true, false}) {
        all.push_back({.idle_before_first_backward = idle,
                       .hold_forwards_back = hold,
                       .fill_small_gaps = fill});
      }
    }
  }
  return all;
}

// Tolerance for rounding where memory is in bytes.
constexpr double kSlack = 1e-9;

// What a stage may hold, what each micro-batch holds there until its I, and what it holds from then
// until its W; in activations or in bytes.
struct Room {
  std::vector<double> limit;
  std::vector<double> activation;
  std::vector<double> weight_grad;
};

// The paper limits bytes: 2p times the bytes of an activation. Without bytes, or where a number of
// activations was given as the limit, an activation counts until its W.
Room RoomOf(const ScheduleRequest& request, const StageCosts& costs) {
  const int count = request.memory_limit == 0 ? 2 * request.ranks : request.memory_limit;
  Room room;
  room.activation.assign(request.ranks, 1);
  room.weight_grad.assign(request.ranks, 1);
  if (request.memory_limit == 0 && !costs.activation_bytes.empty() &&
      !costs.weight_grad_bytes.empty()) {
    room.activation = costs.activation_bytes;
    room.weight_grad = costs.weight_grad_bytes;
  }
  for (const double activation : room.activation) {
    room.limit.push_back(count * activation * (1 + kSlack));
  }
  return room;
}

// Deals the micro-batches one by one to all stages and keeps a clock for each stage.
class Dealer {
 public:
  Dealer(const ScheduleRequest& request, const StageCosts& costs, const Room& room, Choices choices)
      : p_(request.ranks),
        m_(request.micro_batches),
        room_(room),
        costs_(costs),
        choices_(choices),
        stages_(p_),
        forward_end_(p_, std::vector<double>(m_, 0)),
        gradient_end_(p_, std::vector<double>(m_, 0)),
        rows_(p_) {}

  void Deal() {
    WarmUp();
    for (int b = 1; b < m_; ++b) {
      const std::vector<bool> forward = StagesThatGoForward();
      for (int s = 0; s < p_; ++s) {
        if (forward[s]) Forward(s);
      }
      for (int s = p_ - 1; s >= 0; --s) Gradient(s);
    }
    for (int s = 0; s < p_; ++s) {
      while (stages_[s].weight_grads < m_) Put(Op::kWeightGrad, s);
    }
  }

  double Span() const {
    double span = 0;
    for (const Stage& stage : stages_) span = std::max(span, stage.clock - stage.first_start);
    return span;
  }
  std::vector<std::vector<Action>> TakeRows() { return std::move(rows_); }

 private:
  struct Stage {
    int forwards = 0, gradients = 0, weight_grads = 0;
    double clock = 0, first_start = 0, idle = 0;
    double held = 0;
    bool has_weight_grad() const { return weight_grads < gradients; }
  };

  // When the input of the next F (I) of stage s arrives.
  double ForwardArrival(int s) const {
    return s == 0 ? 0 : forward_end_[s - 1][stages_[s].forwards] + costs_.send[s - 1];
  }
  double GradientArrival(int s) const {
    return s == p_ - 1 ? 0 : gradient_end_[s + 1][stages_[s].gradients] + costs_.send[s];
  }

  void Put(Op op, int s) {
    Stage& stage = stages_[s];
    const bool forward = op == Op::kForward;
    const double arrival = forward                ? ForwardArrival(s)
                           : op == Op::kInputGrad ? GradientArrival(s)
                                                  : 0;
    const double start = std::max(stage.clock, arrival);
    if (stage.forwards == 0) stage.first_start = start;
    if (stage.forwards > 0) stage.idle += start - stage.clock;
    most_idle_ = std::max(most_idle_, stage.idle);
    const auto& durations = forward                ? costs_.forward
                            : op == Op::kInputGrad ? costs_.input_grad
                                                   : costs_.weight_grad;
    int& count = forward                ? stage.forwards
                 : op == Op::kInputGrad ? stage.gradients
                                        : stage.weight_grads;
    stage.clock = start + durations[s];
    if (forward) {
      forward_end_[s][count] = stage.clock;
      stage.held += room_.activation[s];
    }
    if (op == Op::kInputGrad) {
      gradient_end_[s][count] = stage.clock;
      stage.held -= room_.activation[s] - room_.weight_grad[s];
    }
    if (op == Op::kWeightGrad) stage.held -= room_.weight_grad[s];
    rows_[s].push_back(ComputeAction(op, s, count++));
  }

  // Warm-up: the forward of micro-batch 0 everywhere, then as many more F on each stage as fit into
  // its memory and into the time before its first I arrives, and fewer on each stage than on the
  // previous one, unless that has them all.
  void WarmUp() {
    for (int s = 0; s < p_; ++s) Put(Op::kForward, s);
    std::vector<int> more(p_, 0);
    double gradient_end = stages_[p_ - 1].clock + costs_.input_grad[p_ - 1];
    for (int s = p_ - 2; s >= 0; --s) {
      const double arrival = gradient_end + costs_.send[s];
      double clock = stages_[s].clock;
      while (more[s] + 1 < m_ && (more[s] + 2) * room_.activation[s] <= room_.limit[s]) {
        const bool late = choices_.idle_before_first_backward ? clock + costs_.forward[s] > arrival
                                                              : clock >= arrival;
        if (late) break;
        clock += costs_.forward[s];
        ++more[s];
      }
      gradient_end = std::max(clock, arrival) + costs_.input_grad[s];
    }
    for (int s = 1; s < p_; ++s) {
      if (more[s - 1] + 1 < m_) more[s] = std::max(0, std::min(more[s], more[s - 1] - 1));
    }
    for (int s = 0; s < p_; ++s) {
      for (int i = 0; i < more[s]; ++i) Put(Op::kForward, s);
    }
    for (int s = p_ - 1; s >= 0; --s) Put(Op::kInputGrad, s);
  }

  // A stage runs a forward in this round only if all later stages run one or have none left.
  std::vector<bool> StagesThatGoForward() const {
    std::vector<bool> forward(p_);
    for (int s = p_ - 1; s >= 0; --s) {
      forward[s] = stages_[s].forwards < m_ && !ShouldHoldBack(s);
      if (s + 1 < p_ && !forward[s + 1]) forward[s] = false;
    }
    return forward;
  }

  // Whether stage s may wait without loss: it is two forwards ahead of the next stage, which will
  // be busy with its own F and I until this stage has waited, and the wait does not make s the
  // slowest stage.
  bool ShouldHoldBack(int s) const {
    if (!choices_.hold_forwards_back || s + 1 == p_) return false;
    const Stage& here = stages_[s];
    const Stage& next = stages_[s + 1];
    if (here.forwards < next.forwards + 2) return false;
    const double next_done =
        next.clock + costs_.forward[s + 1] + costs_.input_grad[s + 1] + costs_.send[s];
    if (here.clock >= next_done) return true;
    int first = 0;  // W that must run before the F to free memory
    while (first < here.gradients - here.weight_grads && !Fits(s, first)) ++first;
    if (here.clock + costs_.forward[s] + first * costs_.weight_grad[s] <= next_done) return false;
    return next_done - here.clock <= most_idle_ - here.idle;
  }

  // Whether one more F fits at stage s after `weight_grads` more W.
  bool Fits(int s, int weight_grads) const {
    return stages_[s].held + room_.activation[s] - weight_grads * room_.weight_grad[s] <=
           room_.limit[s];
  }

  // Runs W in the time until `arrival`.
  void FillGap(int s, double arrival) {
    Stage& stage = stages_[s];
    while (stage.has_weight_grad() && stage.clock + costs_.weight_grad[s] <= arrival) {
      Put(Op::kWeightGrad, s);
    }
    const double gap = arrival - stage.clock;
    if (!stage.has_weight_grad() || gap <= 0) return;
    if (choices_.fill_small_gaps || gap > most_idle_ - stage.idle) Put(Op::kWeightGrad, s);
  }

  void Forward(int s) {
    while (!Fits(s, 0) && stages_[s].has_weight_grad()) Put(Op::kWeightGrad, s);
    FillGap(s, ForwardArrival(s));
    Put(Op::kForward, s);
  }

  void Gradient(int s) {
    FillGap(s, GradientArrival(s));
    // After the last I of stage 0 nothing else can come, so its W need not wait.
    const bool flush = s == 0 && stages_[s].forwards == m_;
    while (flush && stages_[s].has_weight_grad()) Put(Op::kWeightGrad, s);
    Put(Op::kInputGrad, s);
  }

  const int p_, m_;
  const Room& room_;
  const StageCosts& costs_;
  const Choices choices_;
  std::vector<Stage> stages_;
  std::vector<std::vector<double>> forward_end_, gradient_end_;  // [stage][micro-batch]
  double most_idle_ = 0;
  std::vector<std::vector<Action>> rows_;
};

}  // namespace

// ZB-2p: the heuristic of the zero-bubble paper, applied to the given costs, where a rank may hold
// 2p activations (or --memory-limit). It warms up with as many F as fit before the first I; then
// each
// round deals a micro-batch's F to all stages and an I to all stages, and W fill the gaps, or make
// room when memory is full; W that are left come last. With F = I = W, p = 4, m = 8 that is:
//
//   rank 0  f0 f1 f2 f3 f4 f5 f6 i0 f7 w0 i1 w1 i2 w2 i3 w3 i4 w4 i5 w5 i6 w6 i7 w7
//
// Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 3.1; of the variants that it
// searches the one with the shortest span is taken, as in its code.
absl::StatusOr<Timetable> GenerateZb2p(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("zb-2p", 1, request); !ok.ok()) return ok;
  const StageCosts unit = StageCosts::Uniform(request.ranks, 1, 1, 1);
  const StageCosts& costs = request.costs == nullptr ? unit : *request.costs;
  if (absl::Status ok = CheckCosts(costs, request.ranks); !ok.ok()) return ok;
  const Room room = RoomOf(request, costs);
  std::optional<double> best;
  Timetable table = EmptyTimetable("zb-2p", request, Placement::Looped(request.ranks));
  for (const Choices& choices : AllChoices()) {
    Dealer dealer(request, costs, room, choices);
    dealer.Deal();
    if (best.has_value() && dealer.Span() >= *best) continue;
    best = dealer.Span();
    table.rows = dealer.TakeRows();
  }
  return table;
}

}  // namespace sluice
