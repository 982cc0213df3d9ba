#include "pipeline/trace/format_trace.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  explicit Formatter(const std::vector<TraceGroup>& groups)
      : groups_(groups), events_(absl::StrCat("sluice ", Schedules(groups))) {
    for (const TraceGroup& group : groups) ranks_ = std::max(ranks_, group.ranks.size());
  }

  std::string Run() {
    origin_ = Origin();
    WriteThreads();
    for (const TraceGroup& group : groups_) {
      group_ = &group;
      for (const TraceMark& mark : group.marks) events_.Mark(mark.text, Time(mark.time));
      for (const TraceEvent& event : group.events) Write(event);
      WriteArrows();
    }
    return events_.Take();
  }

 private:
  // A message: its step, its two ranks, and its number among those from one to the other.
  using Message = std::array<int64_t, 4>;

  // "1f1b", or "1f1b, interleaved" where a later group had another one.
  static std::string Schedules(const std::vector<TraceGroup>& groups) {
    std::vector<std::string> names;
    for (const TraceGroup& group : groups) {
      if (std::find(names.begin(), names.end(), group.schedule) == names.end())
        names.push_back(group.schedule);
    }
    return absl::StrJoin(names, ", ");
  }

  int64_t Origin() const {
    int64_t origin = std::numeric_limits<int64_t>::max();
    for (const TraceGroup& group : groups_) {
      for (const TraceMark& mark : group.marks) origin = std::min(origin, mark.time);
      for (const TraceEvent& event : group.events) origin = std::min(origin, event.start);
    }
    return origin == std::numeric_limits<int64_t>::max() ? 0 : origin;
  }

  void WriteThreads() {
    std::set<int> background;
    for (const TraceGroup& group : groups_) {
      for (const TraceEvent& event : group.events) {
        if (event.background) background.insert(event.rank);
      }
    }
    for (size_t at = 0; at < ranks_; ++at) {
      const auto rank = static_cast<int>(at);
      const std::string name = RankName(at);
      events_.Thread(Thread(rank, false), name, 2 * at);
      if (background.count(rank) > 0)
        events_.Thread(Thread(rank, true), absl::StrCat(name, " in the background"), 2 * at + 1);
    }
  }

  // As all groups that have the rank name it, which may be of another replica in each.
  std::string RankName(size_t rank) const {
    std::string name;
    for (const TraceGroup& group : groups_) {
      if (rank >= group.ranks.size()) continue;
      if (!name.empty() && group.ranks[rank] != name) return absl::StrCat("rank ", rank);
      name = group.ranks[rank];
    }
    return name;
  }

  size_t Thread(int rank, bool background) const {
    return static_cast<size_t>(rank) + 1 + (background ? ranks_ : 0);
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
    if (groups_.size() > 1) arguments.emplace_back("group", group_->number);
    if (group_->replicas > 1)
      arguments.emplace_back("replica", event.rank / group_->ranks_per_replica());
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
    const bool split = group_->split.count({send.stage, send.micro_batch}) > 0;
    send.op = send.op == Op::kSendForward ? Op::kForward : split ? Op::kInputGrad : Op::kBackward;
    return send;
  }

  // From the start of the send to the last nanosecond of the wait for it: a receive may wait long
  // before it is sent. Where a trace ends between the two, there is no arrow.
  void WriteArrows() {
    WriteArrowsOfGroup();
    sends_.clear();
    receives_.clear();
  }

  void WriteArrowsOfGroup() {
    for (const auto& [message, send] : sends_) {
      const auto receive = receives_.find(message);
      if (receive == receives_.end()) continue;
      const TraceEvent& to = *receive->second;
      events_.Arrow(ToString(MakerOf(send->action)), Thread(send->rank, false), Time(send->start),
                    Thread(to.rank, false), Time(std::max(to.start, to.end - 1)));
    }
  }

  const std::vector<TraceGroup>& groups_;
  const TraceGroup* group_ = nullptr;  // that is being written
  TraceEvents events_;
  size_t ranks_ = 0;  // of the largest group
  int64_t origin_ = 0;
  std::map<Message, const TraceEvent*> sends_;
  std::map<Message, const TraceEvent*> receives_;
};

}  // namespace

std::string FormatTrace(const std::vector<TraceEvent>& trace, const RunPlan& plan) {
  std::vector<TraceGroup> groups = {TraceGroupOf(plan)};
  groups.front().events = trace;
  return FormatTrace(groups);
}

std::string FormatTrace(const std::vector<TraceGroup>& groups) { return Formatter(groups).Run(); }

}  // namespace sluice
