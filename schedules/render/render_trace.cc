#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/render/messages.h"
#include "schedules/render/render.h"
#include "schedules/render/render_common.h"
#include "schedules/render/trace_events.h"
#include "schedules/simulate/memory_profile.h"

namespace sluice {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;
// Viewers attach an arrow to the action in which its end lies. So the ends lie inside their
// actions: away from the action's own ends, which it shares with its neighbours, by this share of
// it.
constexpr double kInside = 1e-3;

size_t Thread(size_t rank) { return rank + 1; }

double Microseconds(double seconds) { return seconds * kMicrosecondsPerSecond; }

class TraceWriter {
 public:
  TraceWriter(const Simulation& run, const Timetable& table, const StageCosts* costs)
      : run_(run), table_(table), costs_(costs), events_(table.name) {}

  std::string Write() {
    for (size_t rank = 0; rank < run_.rows.size(); ++rank) WriteRank(rank);
    WriteMessages();
    return events_.Take();
  }

 private:
  void WriteRank(size_t rank) {
    events_.Thread(Thread(rank), absl::StrCat("rank ", rank), rank);
    for (const TimedAction& timed : run_.rows[rank]) {
      if (!RunsNothing(timed.action.op)) WriteAction(rank, timed);
    }
    const bool bytes = costs_ != nullptr && !costs_->activation_bytes.empty();
    const std::vector<MemoryPoint> points =
        MemoryOverTime(run_.rows[rank], bytes ? *costs_ : StageCosts());
    for (const MemoryPoint& point : points) {
      events_.Memory(rank, bytes ? "bytes" : "activations", Microseconds(point.time),
                     bytes ? point.bytes : point.activations);
    }
  }

  void WriteAction(size_t rank, const TimedAction& timed) {
    const Action& action = timed.action;
    const TraceArgument arguments[] = {{"rank", static_cast<int64_t>(rank)},
                                       {"stage", action.stage},
                                       {"micro_batch", action.micro_batch}};
    const std::string name = ToString(action);
    const bool whole_stage = action.micro_batch == Action::kNoMicroBatch;
    events_.Slice({.name = name,
                   .category = OpName(action.op),
                   .thread = Thread(rank),
                   .start = Microseconds(timed.start),
                   .duration = Microseconds(timed.end - timed.start)},
                  absl::MakeConstSpan(arguments).first(whole_stage ? 2 : 3));
  }

  // An arrow from each action to the one on another rank that uses its result.
  void WriteMessages() {
    for (const DrawnMessage& message : MessagesOf(run_, table_)) {
      WriteArrow(message.from_rank, *message.from, message.to_rank, *message.to);
    }
  }

  void WriteArrow(size_t from_rank, const TimedAction& from, size_t to_rank,
                  const TimedAction& to) {
    events_.Arrow(ToString(from.action), Thread(from_rank),
                  Microseconds(from.end - kInside * (from.end - from.start)), Thread(to_rank),
                  Microseconds(to.start + kInside * (to.end - to.start)));
  }

  const Simulation& run_;
  const Timetable& table_;
  const StageCosts* costs_;
  TraceEvents events_;
};

}  // namespace

std::string RenderTrace(const Simulation& simulation, const Timetable& timetable,
                        const StageCosts* costs) {
  return TraceWriter(simulation, timetable, costs).Write();
}

}  // namespace sluice
