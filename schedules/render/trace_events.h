#ifndef SLUICE_SCHEDULES_RENDER_TRACE_EVENTS_H_
#define SLUICE_SCHEDULES_RENDER_TRACE_EVENTS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// A whole number that a viewer shows beside an event: {"stage", 3}.
using TraceArgument = std::pair<const char*, int64_t>;

// One event of a thread, by which planned and measured traces write alike.
struct TraceSlice {
  absl::string_view name = {};
  absl::string_view category = {};  // of an action OpName, so that one filter finds it in any trace
  size_t thread = 0;
  double start = 0;     // microseconds
  double duration = 0;  // microseconds
};

// Writes a Chrome/Perfetto trace (JSON) of one process. Threads are numbered from 1, and so is the
// process: Perfetto takes process 0, and thread 0 with it, for the idle task of the kernel (its
// issue 560).
class TraceEvents {
 public:
  explicit TraceEvents(absl::string_view process);

  // Threads are shown in the order of `place`.
  void Thread(size_t thread, absl::string_view name, size_t place);
  void Slice(const TraceSlice& slice, absl::Span<const TraceArgument> arguments);
  // What lasts no time: a line across the thread.
  void Instant(absl::string_view name, size_t thread, double time);
  // The same across all threads.
  void Mark(absl::string_view name, double time);
  // The memory that `rank` holds from `time` on; `unit`: "bytes" or "activations".
  void Memory(size_t rank, absl::string_view unit, double time, double held);
  // An arrow of the message `name`. Viewers attach its ends to the slices in which they lie.
  void Arrow(absl::string_view name, size_t from_thread, double from, size_t to_thread, double to);

  // The whole trace; nothing may be written after it.
  std::string Take();

 private:
  void ArrowEnd(absl::string_view name, absl::string_view phase, size_t thread, double time);

  std::string text_;
  int64_t arrows_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_TRACE_EVENTS_H_
