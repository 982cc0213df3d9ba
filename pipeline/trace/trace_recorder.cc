#include "pipeline/trace/trace_recorder.h"

#include <algorithm>

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/memory/work_memory.h"
#include "pipeline/run/marks.h"
#include "pipeline/trace/instruction_names.h"

namespace sluice {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

// [instruction] as PeakLiveBytes counts them.
std::vector<int64_t> LiveBytes(const RankProgram& program) {
  std::vector<int64_t> live(program.instructions.size() + 1);
  for (const Buffer& buffer : program.buffers) {
    live[static_cast<size_t>(buffer.first)] += AlignUp(buffer.bytes);
    live[static_cast<size_t>(buffer.last) + 1] -= AlignUp(buffer.bytes);
  }
  for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  return live;
}

bool IsMessage(Op op) {
  return IsCommunication(op) || op == Op::kWaitSendForward || op == Op::kWaitSendBackward;
}

}  // namespace

TraceRecorder::TraceRecorder(const RankState& state, std::optional<TracedSteps> steps,
                             size_t most_events, TraceParts* parts)
    : state_(state),
      program_(state.train_program()),
      steps_(steps),
      most_events_(parts == nullptr ? most_events : std::min(most_events, parts->room())),
      parts_(parts),
      full_(most_events_ == 0) {
  if (!steps_.has_value()) return;
  clock_.emplace(&state.device(), state.stream(), program_);
  names_ = InstructionNames(program_);
  live_ = LiveBytes(program_);
}

absl::Status TraceRecorder::status() const {
  return clock_.has_value() ? clock_->status() : absl::OkStatus();
}

void TraceRecorder::SetClockAhead(double seconds) {
  clock_ahead_ = static_cast<int64_t>(seconds * kNanosecondsPerSecond);
}

InstructionClock* TraceRecorder::ClockOf(int64_t first, int64_t count) {
  bool traces = false;
  for (int64_t step = first; step < first + count; ++step) traces |= Traces(step);
  return traces ? &*clock_ : nullptr;
}

void TraceRecorder::AppendPass(int64_t first, int64_t count) {
  if (ClockOf(first, count) == nullptr) return;
  const RunPlan& plan = state_.plan();
  int64_t held = 0, begun = 0, end = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    const InstructionTime& time = clock_->times()[i];
    const int64_t step = first + instruction.micro_batch / plan.step_micro_batches();
    if (time.end == 0 || !Traces(step)) continue;
    if (live_[i] != held) AppendMemory(step, time.start, held = live_[i]);
    end = time.end;
    if (instruction.step == Step::kBeginAction) begun = time.start;
    if (names_[i].op == Op::kIdle) continue;
    TraceEvent event{.rank = state_.world_rank(), .step = step, .action = names_[i]};
    event.start = instruction.step == Step::kEndAction ? begun : time.start;
    event.end = time.end;
    if (IsMessage(event.action.op)) {
      event.peer = state_.replica() * plan.ranks() + instruction.index;
      event.message = instruction.message;
      event.bytes = program_.buffers[static_cast<size_t>(instruction.buffer)].bytes;
    }
    Append(event);
  }
  if (held != 0) AppendMemory(first + count - 1, end, 0);
}

void TraceRecorder::AppendMemory(int64_t step, int64_t time, int64_t bytes) {
  Append({.kind = TraceEvent::Kind::kMemory,
          .rank = state_.world_rank(),
          .step = step,
          .action = {},
          .start = time,
          .end = time,
          .bytes = bytes});
}

void TraceRecorder::Append(TraceEvent event) {
  if (full_) return;
  if (handed_over_ + events_.size() == most_events_) {
    full_ = true;
    event.kind = TraceEvent::Kind::kFull;
  }
  event.start -= clock_ahead_;
  event.end -= clock_ahead_;
  events_.push_back(event);
}

void TraceRecorder::HandOver() {
  if (parts_ == nullptr) return;
  parts_->Append(events_);
  handed_over_ += events_.size();
  events_.clear();
}

int64_t TraceRecorder::BytesOf(TracePhase phase) const {
  const int rank = state_.world_rank();
  if (phase == TracePhase::kGradientExchange) return ExchangedBytes(state_.plan(), rank);
  if (phase == TracePhase::kGradientNorm) return NormWorkBytes(state_.plan(), rank);
  if (phase == TracePhase::kAudit) return AuditBytes(state_.plan(), rank);
  return 0;
}

TraceRecorder::Phase TraceRecorder::In(TracePhase phase, int64_t step) {
  if (!Traces(step)) return Phase(nullptr, {});
  return Phase(this, {.kind = TraceEvent::Kind::kPhase,
                      .phase = phase,
                      .rank = state_.world_rank(),
                      .step = step,
                      .action = {},
                      .bytes = BytesOf(phase)});
}

void TraceRecorder::AppendBackground(TracePhase phase, int64_t step, int64_t start, int64_t end) {
  if (!Traces(step)) return;
  Append({.kind = TraceEvent::Kind::kPhase,
          .phase = phase,
          .background = true,
          .rank = state_.world_rank(),
          .step = step,
          .action = {},
          .start = start,
          .end = end});
}

TraceRecorder::Phase::Phase(TraceRecorder* recorder, const TraceEvent& event)
    : recorder_(recorder), event_(event) {
  if (recorder_ == nullptr) return;
  event_.start = SteadyNanoseconds();
  if (event_.bytes > 0) recorder_->AppendMemory(event_.step, event_.start, event_.bytes);
}

TraceRecorder::Phase::~Phase() {
  if (recorder_ == nullptr) return;
  event_.end = SteadyNanoseconds();
  recorder_->Append(event_);
  if (event_.bytes > 0) recorder_->AppendMemory(event_.step, event_.end, 0);
}

}  // namespace sluice
