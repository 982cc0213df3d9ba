#ifndef SLUICE_PIPELINE_TRACE_TRACE_RECORDER_H_
#define SLUICE_PIPELINE_TRACE_TRACE_RECORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/run/instruction_clock.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/trace/trace_event.h"
#include "pipeline/trace/trace_parts.h"

namespace sluice {

// Keeps what one rank does in the steps of a run that are traced. Without a trace it keeps nothing
// and reads no clock.
class TraceRecorder {
 public:
  // `steps`: those that are traced; none: no trace. `parts`: what takes the events, as many as it has
  // room for; null: they stay here. Both `state` and `parts` must outlive this.
  TraceRecorder(const RankState& state, std::optional<TracedSteps> steps,
                size_t most_events = kMostTraceEvents, TraceParts* parts = nullptr);
  ~TraceRecorder() { HandOver(); }
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  // Not OK where the device has no events left for the instructions' times.
  absl::Status status() const;
  // By how many seconds this rank's clock is ahead of rank 0's.
  void SetClockAhead(double seconds);

  // For a pass over the training program that begins with step `first` and takes `count` steps;
  // null where none of them is traced.
  InstructionClock* ClockOf(int64_t first, int64_t count);
  // Keeps that pass: its actions, its messages and waits, and the memory that its buffers take.
  void AppendPass(int64_t first, int64_t count);

  // What lasts from the call until the returned object goes away.
  class Phase {
   public:
    Phase(TraceRecorder* recorder, const TraceEvent& event);  // null: nothing is kept
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    TraceRecorder* const recorder_;
    TraceEvent event_;
  };
  Phase In(TracePhase phase, int64_t step);
  // What another thread did; both in SteadyNanoseconds.
  void AppendBackground(TracePhase phase, int64_t step, int64_t start, int64_t end);

  // Gives the parts what has been kept so far.
  void HandOver();
  // Those that have not been handed over.
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  bool Traces(int64_t step) const { return steps_.has_value() && steps_->Has(step) && !full_; }
  // Of the step region, in use meanwhile.
  int64_t BytesOf(TracePhase phase) const;
  void Append(TraceEvent event);
  void AppendMemory(int64_t step, int64_t time, int64_t bytes);

  const RankState& state_;
  const RankProgram& program_;
  const std::optional<TracedSteps> steps_;
  const size_t most_events_;  // then one more, which says so
  TraceParts* const parts_;
  size_t handed_over_ = 0;
  std::optional<InstructionClock> clock_;
  std::vector<Action> names_;  // [instruction]
  std::vector<int64_t> live_;  // [instruction] bytes of the buffers that are alive at it
  int64_t clock_ahead_ = 0;    // nanoseconds
  bool full_ = false;
  std::vector<TraceEvent> events_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRACE_TRACE_RECORDER_H_
