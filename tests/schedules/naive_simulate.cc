#include <algorithm>

#include "naive.h"

namespace sluice {
namespace {

struct Place {
  size_t rank, position;
};

bool MakesGradient(Op op) { return op == Op::kBackward || op == Op::kInputGrad; }

// Every place where `wanted` holds.
template <typename Wanted>
std::vector<Place> Where(const Timetable& table, Wanted wanted) {
  std::vector<Place> spots;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    for (size_t i = 0; i < table.rows[r].size(); ++i) {
      if (wanted(table.rows[r][i])) spots.push_back({r, i});
    }
  }
  return spots;
}

double DurationOf(const Action& a, const StageCosts& costs) {
  if (a.op == Op::kForward) return costs.forward[a.stage];
  if (a.op == Op::kRecompute)
    return (costs.recompute.empty() ? costs.forward : costs.recompute)[a.stage];
  if (a.op == Op::kBackward) return costs.backward[a.stage];
  if (a.op == Op::kInputGrad) return costs.input_grad[a.stage];
  if (a.op == Op::kWeightGrad) return costs.weight_grad[a.stage];
  return 0;
}

// Whether there is a stage `other`, in the same copy of the model.
bool SameCopy(const Placement& placement, int stage, int other) {
  const int copy_stages = placement.stages() / placement.copies();
  return other >= 0 && other < placement.stages() && stage / copy_stages == other / copy_stages;
}

// The action that must have ended before `a` starts (for F, B and I), and the latency between them.
struct Input {
  std::vector<Place> from;
  double latency = 0;
};

Input InputOf(const Timetable& table, const Action& a, const StageCosts& costs) {
  const bool forward = a.op == Op::kForward;
  const int producer = forward ? a.stage - 1 : a.stage + 1;
  if (!(forward || MakesGradient(a.op)) || !SameCopy(table.placement, a.stage, producer)) return {};
  const bool crosses = table.placement.rank(producer) != table.placement.rank(a.stage);
  const bool by_send = crosses && table.lowered();
  Input input;
  if (crosses) input.latency = costs.send[std::min<int>(producer, a.stage)];
  input.from = Where(table, [&](const Action& other) {
    const bool right_op = by_send   ? other.op == (forward ? Op::kSendForward : Op::kSendBackward)
                          : forward ? other.op == Op::kForward
                                    : MakesGradient(other.op);
    return right_op && other.stage == producer && other.micro_batch == a.micro_batch;
  });
  return input;
}

// The stage to which the action at (rank, i) sends a message when it ends; negative for none.
int Receiver(const Timetable& table, const Action& a) {
  const bool forward = a.op == (table.lowered() ? Op::kSendForward : Op::kForward);
  const bool back = table.lowered() ? a.op == Op::kSendBackward : MakesGradient(a.op);
  const int to = forward ? a.stage + 1 : back ? a.stage - 1 : -1;
  if (to < 0 || !SameCopy(table.placement, a.stage, to)) return -1;
  return table.placement.rank(to) == table.placement.rank(a.stage) ? -1 : to;
}

// When the result of the action at `spot` is sent: when the action ends, or when the previous
// message of its row to the same rank has released the link.
double LeavesAt(const Timetable& table, const StageCosts& costs, const NaiveRun& run, Place spot) {
  const auto& row = run.rows[spot.rank];
  const int to = Receiver(table, row[spot.position].action);
  if (to < 0 || costs.link_busy.empty()) return row[spot.position].end;
  double free = 0;
  for (size_t i = 0;; ++i) {
    const Action& a = row[i].action;
    const int receiver = Receiver(table, a);
    if (receiver < 0 || table.placement.rank(receiver) != table.placement.rank(to)) continue;
    const double leaves = std::max(free, row[i].end);
    if (i == spot.position) return leaves;
    free = leaves + costs.link_busy[std::min<int>(a.stage, receiver)];
  }
}

// Counts at every time at which an action starts.
void Measure(const Timetable& table, const StageCosts& costs, NaiveRun& run) {
  for (const auto& row : run.rows) {
    int most = 0;
    double most_bytes = 0;
    for (size_t now = 0; now < row.size(); ++now) {
      int held = 0;
      double bytes = 0;
      // Position `now` is running: all earlier positions have ended, except one in the same pair.
      const auto ended = [&](size_t i) {
        const bool paired = (i + 1 == now && row[i].action.overlaps_next) ||
                            (now + 1 == i && row[now].action.overlaps_next);
        return i < now && !paired;
      };
      const auto started = [&](size_t i) {
        return i <= now || (now + 1 == i && row[now].action.overlaps_next);
      };
      for (size_t f = 0; f < row.size(); ++f) {
        const Action& a = row[f].action;
        if (a.op != Op::kForward || !started(f)) continue;
        bool input_done = false;
        bool weight_done = false;
        bool dropped = false;
        for (size_t i = 0; i < row.size(); ++i) {
          if (row[i].action.stage != a.stage || row[i].action.micro_batch != a.micro_batch)
            continue;
          const Op op = row[i].action.op;
          dropped |= op == Op::kRecompute && ended(f) && !started(i);
          if (!ended(i)) continue;
          input_done |= MakesGradient(op);
          weight_done |= op == Op::kBackward || op == Op::kWeightGrad;
        }
        held += !weight_done;
        const double all = costs.activation_bytes[a.stage];
        const double kept = costs.weight_grad_bytes[a.stage];
        const double checkpoint =
            costs.checkpoint_bytes.empty() ? 0 : std::min(all, costs.checkpoint_bytes[a.stage]);
        bytes += weight_done ? 0 : dropped ? checkpoint : input_done ? kept : all;
      }
      most = std::max(most, held);
      most_bytes = std::max(most_bytes, bytes);
    }
    run.peak_activations.push_back(most);
    run.peak_bytes.push_back(most_bytes);
  }
  (void)table;
}

}  // namespace

std::optional<NaiveRun> NaiveSimulate(const Timetable& table, const StageCosts& costs) {
  NaiveRun run;
  std::vector<std::vector<Input>> inputs;
  for (const auto& row : table.rows) {
    auto& timed = run.rows.emplace_back();
    auto& needs = inputs.emplace_back();
    for (const Action& action : row) {
      timed.push_back({action, 0, 0});
      needs.push_back(InputOf(table, action, costs));
    }
  }
  const int64_t rounds = table.action_count() + 2;
  for (int64_t round = 0; round < rounds; ++round) {
    bool changed = false;
    for (size_t r = 0; r < run.rows.size(); ++r) {
      auto& row = run.rows[r];
      for (size_t i = 0; i < row.size(); ++i) {
        const size_t last = row[i].action.overlaps_next ? i + 1 : i;
        double start = i == 0 ? 0 : row[i - 1].end;
        double duration = 0;
        for (size_t k = i; k <= last; ++k) {
          duration += DurationOf(row[k].action, costs);
          for (const Place& from : inputs[r][k].from) {
            const double leaves = LeavesAt(table, costs, run, from);
            start = std::max(start, leaves + inputs[r][k].latency);
          }
        }
        if (last > i && costs.overlap >= 0) duration = costs.overlap;
        for (size_t k = i; k <= last; ++k) {
          changed |= row[k].start != start || row[k].end != start + duration;
          row[k].start = start;
          row[k].end = start + duration;
          run.makespan = std::max(run.makespan, row[k].end);
        }
        i = last;
      }
    }
    if (changed) continue;
    Measure(table, costs, run);
    return run;
  }
  return std::nullopt;
}

}  // namespace sluice
