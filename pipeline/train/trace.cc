#include "pipeline/train/trace.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1000;

const char* Colour(Op op) {
  switch (op) {
    case Op::kForward:
      return "good";
    case Op::kWeightGrad:
      return "olive";
    default:
      return "thread_state_runnable";
  }
}

}  // namespace

void AppendTrace(const Executor& executor, int64_t first_step, int step_micro_batches,
                 std::vector<TracedAction>* trace) {
  const RankProgram& program = executor.program();
  for (size_t a = 0; a < program.actions.size(); ++a) {
    if (executor.times()[a].end == 0) continue;
    trace->push_back({.step = first_step + program.actions[a].micro_batch / step_micro_batches,
                      .rank = executor.world_rank(),
                      .action = program.actions[a],
                      .time = executor.times()[a]});
  }
}

std::string FormatTrace(const std::vector<TracedAction>& trace, const Timetable& timetable) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const TracedAction& traced : trace) origin = std::min(origin, traced.time.start);
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  int ranks = timetable.placement.ranks();
  for (const TracedAction& traced : trace) ranks = std::max(ranks, traced.rank + 1);
  for (int rank = 0; rank < ranks; ++rank) {
    absl::StrAppend(&json, R"({"name":"thread_name","ph":"M","pid":0,"tid":)", rank,
                    R"(,"args":{"name":"rank )", rank, "\"}},\n");
  }
  for (const TracedAction& traced : trace) {
    absl::StrAppendFormat(
        &json,
        R"({"name":"%s","cat":"step %d","ph":"X","pid":0,"tid":%d,"ts":%.3f,"dur":%.3f,"cname":"%s","args":{"step":%d,"stage":%d,"micro_batch":%d}},)"
        "\n",
        ToString(traced.action), traced.step, traced.rank,
        static_cast<double>(traced.time.start - origin) / kNanosecondsPerMicrosecond,
        static_cast<double>(traced.time.end - traced.time.start) / kNanosecondsPerMicrosecond,
        Colour(traced.action.op), traced.step, traced.action.stage, traced.action.micro_batch);
  }
  const nlohmann::json name = "sluice " + timetable.name;
  absl::StrAppend(&json, R"({"name":"process_name","ph":"M","pid":0,"args":{"name":)",
                  name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "}}\n]}\n");
  return json;
}

}  // namespace sluice
