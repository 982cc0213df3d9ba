#include "schedules/lower.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/dependency.h"
#include "schedules/simulate.h"
#include "schedules/validate.h"

namespace sluice {
namespace {

// An action, or the message that it causes, at a moment of the reference run.
struct Event {
  int rank;
  size_t position;
  bool is_message;
};

// All events of a run in which F, I and W take 1 and B takes 2, in the order of time: an action
// counts when it starts, a message when its producer ends, and at one moment messages come first.
// Times are whole numbers no larger than twice the number of actions, so sorting by counting is
// linear.
class EventOrder {
 public:
  EventOrder(const Timetable& table, const Simulation& run)
      : first_(KeyOf(run.makespan, false) + 2, 0) {
    ForEach(table, run, [&](size_t key, Event) { ++first_[key + 1]; });
    for (size_t key = 1; key < first_.size(); ++key) first_[key] += first_[key - 1];
    events_.resize(first_.back());
    ForEach(table, run, [&](size_t key, Event event) { events_[first_[key]++] = event; });
  }
  const std::vector<Event>& events() const { return events_; }

 private:
  static size_t KeyOf(double time, bool is_message) {
    return 2 * static_cast<size_t>(std::llround(time)) + (is_message ? 0 : 1);
  }

  template <typename Visit>
  static void ForEach(const Timetable& table, const Simulation& run, Visit visit) {
    const Placement& placement = table.placement;
    for (int rank = 0; rank < placement.ranks(); ++rank) {
      const auto& row = run.rows[rank];
      for (size_t i = 0; i < row.size(); ++i) {
        const Action& action = row[i].action;
        if (action.op == Op::kIdle) continue;
        visit(KeyOf(row[i].start, false), Event{rank, i, false});
        const int consumer = ConsumerStage(placement, action.op, action.stage);
        if (consumer == kNoStage || placement.rank(consumer) == rank) continue;
        visit(KeyOf(row[i].end, true), Event{rank, i, true});
      }
    }
  }

  std::vector<size_t> first_;  // [key] where the events of a key begin
  std::vector<Event> events_;
};

Action MessageEnd(Op op, int stage, int micro_batch) {
  return Action{.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = micro_batch};
}

}  // namespace

// Every row of the result is what one total order of events leaves to that rank: actions on their
// rank, a message on both of its ends. Executing the events in that order never blocks, since a
// message's two ends are reached together: so there is no deadlock, and on every channel both ends
// see the same order. The order respects the dependencies, because a message comes after its
// producer has started and, at one moment, before what starts then.
absl::StatusOr<Timetable> LowerTimetable(const Timetable& timetable) {
  if (timetable.lowered()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timetable ", timetable.name, " already has sends and receives"));
  }
  if (absl::Status sound = ValidateTimetable(timetable); !sound.ok()) return sound;
  const Placement& placement = timetable.placement;
  absl::StatusOr<Simulation> run =
      Simulate(timetable, StageCosts::Uniform(placement.stages(), 1, 1, 1));
  if (!run.ok()) return run.status();
  const EventOrder order(timetable, *run);

  Timetable lowered = timetable;
  for (auto& row : lowered.rows) row.clear();
  for (const Event& event : order.events()) {
    const Action& action = timetable.rows[event.rank][event.position];
    if (!event.is_message) {
      lowered.rows[event.rank].push_back(action);
      continue;
    }
    const bool forward = action.op == Op::kForward;
    const int consumer = ConsumerStage(placement, action.op, action.stage);
    lowered.rows[event.rank].push_back(MessageEnd(forward ? Op::kSendForward : Op::kSendBackward,
                                                  action.stage, action.micro_batch));
    lowered.rows[placement.rank(consumer)].push_back(
        MessageEnd(forward ? Op::kRecvForward : Op::kRecvBackward, consumer, action.micro_batch));
  }
  return lowered;
}

Timetable ComputeOnly(const Timetable& timetable) {
  Timetable compute = timetable;
  for (auto& row : compute.rows) {
    row.erase(std::remove_if(row.begin(), row.end(),
                             [](const Action& a) { return IsCommunication(a.op); }),
              row.end());
  }
  return compute;
}

}  // namespace sluice
