#include "pipeline/train/trace.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1000;

// Threads are numbered from 1, and so is the process, as in the trace of a planned timetable
// (schedules/render/render_trace.cc).
int Thread(int rank) { return rank + 1; }

}  // namespace

void AppendTrace(const Executor& executor, int64_t first_step, int step_micro_batches,
                 const TracedSteps& steps, std::vector<TracedAction>* trace) {
  const RankProgram& program = executor.program();
  for (size_t a = 0; a < program.actions.size(); ++a) {
    const int64_t step = first_step + program.actions[a].micro_batch / step_micro_batches;
    if (executor.times()[a].end == 0 || !steps.Has(step)) continue;
    trace->push_back({.step = step,
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
    absl::StrAppendFormat(
        &json,
        R"({"name":"thread_name","ph":"M","pid":1,"tid":%d,"args":{"name":"rank %d"}},)"
        "\n"
        R"({"name":"thread_sort_index","ph":"M","pid":1,"tid":%d,"args":{"sort_index":%d}},)"
        "\n",
        Thread(rank), rank, Thread(rank), rank);
  }
  for (const TracedAction& traced : trace) {
    absl::StrAppendFormat(
        &json,
        R"({"name":"%s","cat":"%s","ph":"X","pid":1,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{"step":%d,"rank":%d,"stage":%d,"micro_batch":%d}},)"
        "\n",
        ToString(traced.action), OpName(traced.action.op), Thread(traced.rank),
        static_cast<double>(traced.time.start - origin) / kNanosecondsPerMicrosecond,
        static_cast<double>(traced.time.end - traced.time.start) / kNanosecondsPerMicrosecond,
        traced.step, traced.rank, traced.action.stage, traced.action.micro_batch);
  }
  const nlohmann::json name = "sluice " + timetable.name;
  absl::StrAppend(&json, R"({"name":"process_name","ph":"M","pid":1,"args":{"name":)",
                  name.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "}}\n]}\n");
  return json;
}

}  // namespace sluice
