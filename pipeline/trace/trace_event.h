#ifndef SLUICE_PIPELINE_TRACE_TRACE_EVENT_H_
#define SLUICE_PIPELINE_TRACE_TRACE_EVENT_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "schedules/action.h"

namespace sluice {

// What a rank does between the passes of a run.
enum class TracePhase : uint8_t {
  kGradientExchange,  // gradients of tied weights and of two copies of the model; mirrors
  kGradientNorm,
  kReport,  // the ranks agree on the step's loss and norm, and so wait for the slowest
  kUpdate,
  kEvaluation,
  kCheckpoint,
  kAudit,  // a micro-batch of another rank, and the comparison
};

// One thing that really happened on one rank, in nanoseconds on the steady clock of rank 0.
struct TraceEvent {
  enum class Kind : uint8_t {
    kAction,  // `action`, a message or a wait for one included
    kPhase,   // `phase`
    kMemory,  // from `start` on the rank holds `bytes` of its step region; no end
    kFull,    // what happened from `start` on was left out, since there was too much; no end
  };
  static constexpr int kNoPeer = -1;

  Kind kind = Kind::kAction;
  TracePhase phase = TracePhase::kUpdate;
  bool background = false;  // of a phase: by a thread of its own
  int rank = 0;             // of the world
  int64_t step = 0;
  Action action;
  int64_t start = 0;
  int64_t end = 0;
  int64_t bytes = 0;   // of a message; of memory
  int peer = kNoPeer;  // of a message: the other rank, of the world
  int message = 0;     // its number within the pass, of those from one rank to the other
};
static_assert(std::is_trivially_copyable_v<TraceEvent>);  // ranks send them to rank 0

// The steps that are traced: from `first` to `last`, both included.
struct TracedSteps {
  int64_t first = 1;
  int64_t last = std::numeric_limits<int64_t>::max();
  bool Has(int64_t step) const { return first <= step && step <= last; }
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRACE_TRACE_EVENT_H_
