#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/render.h"
#include "schedules/render_common.h"

namespace sluice {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

}  // namespace

std::string RenderTrace(const Simulation& simulation, const Timetable& timetable) {
  std::string text =
      absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                   "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":",
                   JsonQuoted(timetable.name), "}}");
  for (size_t rank = 0; rank < simulation.rows.size(); ++rank) {
    absl::StrAppend(&text, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":", rank,
                    ",\"args\":{\"name\":\"rank ", rank, "\"}}");
    for (const TimedAction& timed : simulation.rows[rank]) {
      const Action& action = timed.action;
      if (action.op == Op::kIdle) continue;
      absl::StrAppend(
          &text,
          absl::StrFormat(",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,"
                          "\"ts\":%.12g,\"dur\":%.12g,\"args\":{\"stage\":%d",
                          ToString(action), OpName(action.op), rank,
                          timed.start * kMicrosecondsPerSecond,
                          (timed.end - timed.start) * kMicrosecondsPerSecond, action.stage));
      if (action.micro_batch != Action::kNoMicroBatch) {
        absl::StrAppend(&text, ",\"micro_batch\":", action.micro_batch);
      }
      absl::StrAppend(&text, "}}");
    }
  }
  return absl::StrCat(text, "\n]}\n");
}

}  // namespace sluice
