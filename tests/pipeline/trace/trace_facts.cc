#include "tests/pipeline/trace/trace_facts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/memory/work_memory.h"
#include "pipeline/trace/format_trace.h"

namespace sluice {
namespace {

using nlohmann::json;

struct Slice {
  double start = 0;
  double end = 0;
  std::string name;
  std::string category;
};
// Times are read as whole nanoseconds, which they are.
double Nanoseconds(const json& microseconds) {
  return std::round(microseconds.get<double>() * 1000);
}

class Reader {
 public:
  TraceFacts Read(const json& events, int world_size) {
    facts_.most_held.resize(static_cast<size_t>(world_size));
    facts_.held.resize(static_cast<size_t>(world_size));
    for (const json& event : events) Take(event);
    for (auto& [thread, slices] : slices_) CheckNested(thread, slices);
    for (const auto& [id, ends] : arrows_) CheckArrow(id, ends);
    facts_.arrows = static_cast<int>(arrows_.size());
    return facts_;
  }

 private:
  void Take(const json& event) {
    const std::string phase = event["ph"], name = event["name"];
    if (event["pid"] != 1) Complain(name, " is of another process");
    if (phase == "X") {
      ++facts_.categories[event["cat"]];
      ++facts_.names[name];
      if (event["args"].contains("group")) ++facts_.groups[event["args"]["group"]][name];
      const double start = Nanoseconds(event["ts"]);
      slices_[event["tid"]].push_back(
          {start, start + Nanoseconds(event["dur"]), name, event["cat"]});
    } else if (phase == "s" || phase == "f") {
      arrows_[event["id"]].push_back(event);
    } else if (phase == "i" && event["s"] == "p") {
      facts_.marks.push_back(name);
    } else if (phase == "C") {
      const size_t rank = std::stoul(name.substr(sizeof("rank ") - 1));
      const double held = event["args"]["held"];
      facts_.held.at(rank) = held;
      facts_.most_held.at(rank) = std::max(facts_.most_held.at(rank), held);
    } else if (phase == "M" && name == "thread_name") {
      facts_.threads[event["tid"]] = event["args"]["name"];
    }
  }

  void CheckNested(int thread, std::vector<Slice>& slices) {
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<const Slice*> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back()->end <= slice.start) open.pop_back();
      if (!open.empty() && open.back()->end < slice.end)
        Complain(slice.name, " ends after ", open.back()->name, " on thread ", thread);
      open.push_back(&slice);
    }
  }

  // Whether the end of an arrow lies in a slice of the category of its thread.
  bool Inside(const json& end, const std::string& category) {
    const double time = Nanoseconds(end["ts"]);
    const std::vector<Slice>& slices = slices_[end["tid"]];
    return std::any_of(slices.begin(), slices.end(), [&](const Slice& slice) {
      return slice.category == category && slice.start <= time &&
             (time < slice.end || slice.start == slice.end);
    });
  }

  void CheckArrow(int id, const std::vector<json>& ends) {
    if (ends.size() != 2 || ends[0]["ph"] != "s" || ends[1]["ph"] != "f") {
      Complain("arrow ", id, " has no two ends");
      return;
    }
    const std::string name = ends[0]["name"];
    const bool forward = absl::StrContains(name, "F");
    if (!Inside(ends[0], forward ? "SEND_F" : "SEND_B")) Complain(name, " begins in no send");
    if (!Inside(ends[1], forward ? "RECV_F" : "RECV_B")) Complain(name, " ends in no receive");
    if (ends[0]["tid"] == ends[1]["tid"]) Complain(name, " stays on its rank");
    if (ends[1]["ts"] < ends[0]["ts"]) ++facts_.early_arrows;
  }

  template <typename... Words>
  void Complain(const Words&... words) {
    facts_.defects.push_back(absl::StrCat(words...));
  }

  TraceFacts facts_;
  std::map<int, std::vector<Slice>> slices_;  // [thread]
  std::map<int, std::vector<json>> arrows_;   // [id]
};

}  // namespace

TraceFacts ReadTrace(const std::vector<TraceEvent>& trace, const RunPlan& plan) {
  return Reader().Read(json::parse(FormatTrace(trace, plan))["traceEvents"], plan.world_size());
}

TraceFacts ReadTrace(const std::vector<TraceGroup>& groups, int ranks) {
  return Reader().Read(json::parse(FormatTrace(groups))["traceEvents"], ranks);
}

int64_t PlannedPeak(const RunPlan& plan, int world_rank) {
  const RankProgram& program = plan.train[static_cast<size_t>(plan.pipeline_rank(world_rank))];
  const int64_t live = PeakLiveBytes(program.buffers);
  if (plan.asynchronous()) return live;
  return std::max({live, ExchangedBytes(plan, world_rank), NormWorkBytes(plan, world_rank),
                   AuditBytes(plan, world_rank)});
}

}  // namespace sluice
