#include "pipeline/trace/format_trace.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/render/trace_events.h"

namespace sluice {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1000;

struct PhaseName {
  const char* name;
  const char* category;
};

PhaseName NameOf(TracePhase phase) {
  switch (phase) {
    case TracePhase::kGradientExchange:
      return {"gradient exchange", OpName(Op::kReduceGrad)};
    case TracePhase::kGradientNorm:
      return {"gradient norm", "gradient norm"};
    case TracePhase::kReport:
      return {"agreement", "agreement"};
    case TracePhase::kUpdate:
      return {OpName(Op::kOptimizerStep), OpName(Op::kOptimizerStep)};
    case TracePhase::kEvaluation:
      return {"evaluation", "evaluation"};
    case TracePhase::kCheckpoint:
      return {"checkpoint", "checkpoint"};
    case TracePhase::kAudit:
      return {"audit", "audit"};
  }
  return {"", ""};
}

class Formatter {
 public:
  Formatter(const std::vector<TraceEvent>& trace, const RunPlan& plan)
      : trace_(trace), plan_(plan), events_(absl::StrCat("sluice ", plan.lowered.name)) {
    for (const std::vector<Action>& row : plan.lowered.rows) {
      for (const Action& action : row) {
        if (action.op == Op::kInputGrad) split_.insert({action.stage, action.micro_batch});
      }
    }
  }

  std::string Run() {
    origin_ = trace_.empty() ? 0 : std::numeric_limits<int64_t>::max();
    for (const TraceEvent& event : trace_) origin_ = std::min(origin_, event.start);
    WriteThreads();
    for (const TraceEvent& event : trace_) Write(event);
    WriteArrows();
    return events_.Take();
  }

 private:
  // A message: its step, its two ranks, and its number among those from one to the other.
  using Message = std::array<int64_t, 4>;

  void WriteThreads() {
    std::set<int> background;
    for (const TraceEvent& event : trace_) {
      if (event.background) background.insert(event.rank);
    }
    for (int rank = 0; rank < plan_.world_size(); ++rank) {
      const auto place = 2 * static_cast<size_t>(rank);
      const std::string name = RankName(rank);
      events_.Thread(Thread(rank, false), name, place);
      if (background.count(rank) > 0)
        events_.Thread(Thread(rank, true), absl::StrCat(name, " in the background"), place + 1);
    }
  }

  std::string RankName(int rank) const {
    std::string name = absl::StrCat("rank ", rank);
    if (plan_.replicas() > 1) absl::StrAppend(&name, " (replica ", plan_.replica(rank), ")");
    if (!plan_.has_stage_members()) return name;
    const int in_pipeline = plan_.pipeline_rank(rank);
    const int stage = plan_.deal.StagesOf(in_pipeline).front();
    absl::StrAppend(&name, " (stage ", stage);
    if (plan_.deal.members(stage) > 1)
      absl::StrAppend(&name, ", member ", plan_.deal.member(in_pipeline));
    return name + ")";
  }

  size_t Thread(int rank, bool background) const {
    const int after = background ? plan_.world_size() : 0;
    return static_cast<size_t>(rank) + 1 + static_cast<size_t>(after);
  }

  double Time(int64_t nanoseconds) const {
    return static_cast<double>(nanoseconds - origin_) / kNanosecondsPerMicrosecond;
  }

  void Write(const TraceEvent& event) {
    switch (event.kind) {
      case TraceEvent::Kind::kAction:
        WriteAction(event);
        return;
      case TraceEvent::Kind::kPhase: {
        const auto [name, category] = NameOf(event.phase);
        WriteSlice(event, name, category);
        return;
      }
      case TraceEvent::Kind::kMemory:
        events_.Memory(static_cast<size_t>(event.rank), "bytes", Time(event.start),
                       static_cast<double>(event.bytes));
        return;
      case TraceEvent::Kind::kFull:
        events_.Instant("the trace is full: give --trace-steps FIRST-LAST to see later steps",
                        Thread(event.rank, false), Time(event.start));
        return;
    }
  }

  void WriteAction(const TraceEvent& event) {
    const std::string name = ToString(event.action);
    WriteSlice(event, name, OpName(event.action.op));
    const Op op = event.action.op;
    if (op == Op::kSendForward || op == Op::kSendBackward)
      sends_[{event.step, event.rank, event.peer, event.message}] = &event;
    if (op == Op::kRecvForward || op == Op::kRecvBackward)
      receives_[{event.step, event.peer, event.rank, event.message}] = &event;
  }

  void WriteSlice(const TraceEvent& event, absl::string_view name, absl::string_view category) {
    std::vector<TraceArgument> arguments = {{"step", event.step}, {"rank", event.rank}};
    if (plan_.replicas() > 1) arguments.emplace_back("replica", plan_.replica(event.rank));
    if (event.kind == TraceEvent::Kind::kAction) {
      arguments.emplace_back("stage", event.action.stage);
      if (event.action.micro_batch != Action::kNoMicroBatch)
        arguments.emplace_back("micro_batch", event.action.micro_batch);
      if (event.peer != TraceEvent::kNoPeer) {
        arguments.emplace_back("peer", event.peer);
        arguments.emplace_back("bytes", event.bytes);
      }
    }
    events_.Slice(
        {.name = name,
         .category = category,
         .thread = Thread(event.rank, event.background),
         .start = Time(event.start),
         .duration = static_cast<double>(event.end - event.start) / kNanosecondsPerMicrosecond},
        arguments);
  }

  // The action whose result `send` passes on: a message is named after it, as in a plan's trace.
  Action MakerOf(Action send) const {
    const bool split = split_.count({send.stage, send.micro_batch}) > 0;
    send.op = send.op == Op::kSendForward ? Op::kForward : split ? Op::kInputGrad : Op::kBackward;
    return send;
  }

  // From the start of the send to the last nanosecond of the wait for it: a receive may wait long
  // before it is sent. Where a trace ends between the two, there is no arrow.
  void WriteArrows() {
    for (const auto& [message, send] : sends_) {
      const auto receive = receives_.find(message);
      if (receive == receives_.end()) continue;
      const TraceEvent& to = *receive->second;
      events_.Arrow(ToString(MakerOf(send->action)), Thread(send->rank, false), Time(send->start),
                    Thread(to.rank, false), Time(std::max(to.start, to.end - 1)));
    }
  }

  const std::vector<TraceEvent>& trace_;
  const RunPlan& plan_;
  TraceEvents events_;
  std::set<std::pair<int, int>> split_;  // stages and micro-batches whose backward is I and W
  int64_t origin_ = 0;
  std::map<Message, const TraceEvent*> sends_;
  std::map<Message, const TraceEvent*> receives_;
};

}  // namespace

std::string FormatTrace(const std::vector<TraceEvent>& trace, const RunPlan& plan) {
  return Formatter(trace, plan).Run();
}

}  // namespace sluice
