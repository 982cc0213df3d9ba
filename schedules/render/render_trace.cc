#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/dependency.h"
#include "schedules/render/render.h"
#include "schedules/render/render_common.h"
#include "schedules/simulate/memory_profile.h"

namespace sluice {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;
// Viewers attach an arrow to the action in which its end lies. So the ends lie inside their
// actions: away from the action's own ends, which it shares with its neighbours, by this share of
// it.
constexpr double kInside = 1e-3;

// Threads are numbered from 1, and so is the process: Perfetto takes process 0, and thread 0 with
// it, for the idle task of the kernel (its issue 560).
size_t Thread(size_t rank) { return rank + 1; }

double Microseconds(double seconds) { return seconds * kMicrosecondsPerSecond; }

class TraceWriter {
 public:
  TraceWriter(const Simulation& run, const Timetable& table, const StageCosts* costs)
      : run_(run), table_(table), costs_(costs), cell_(table) {}

  std::string Write() {
    text_ = absl::StrCat("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                         "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":",
                         JsonQuoted(table_.name), "}}");
    for (size_t rank = 0; rank < run_.rows.size(); ++rank) WriteRank(rank);
    WriteMessages();
    return absl::StrCat(text_, "\n]}\n");
  }

 private:
  void WriteRank(size_t rank) {
    absl::StrAppendFormat(&text_,
                          ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
                          "\"args\":{\"name\":\"rank %d\"}},\n{\"name\":\"thread_sort_index\","
                          "\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
                          Thread(rank), rank, Thread(rank), rank);
    for (const TimedAction& timed : run_.rows[rank]) {
      if (!RunsNothing(timed.action.op)) WriteAction(rank, timed);
    }
    const bool bytes = costs_ != nullptr && !costs_->activation_bytes.empty();
    const std::vector<MemoryPoint> points =
        MemoryOverTime(run_.rows[rank], bytes ? *costs_ : StageCosts());
    for (const MemoryPoint& point : points) WriteMemory(rank, point, bytes);
  }

  void WriteAction(size_t rank, const TimedAction& timed) {
    const Action& action = timed.action;
    absl::StrAppendFormat(&text_,
                          ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,"
                          "\"ts\":%.12g,\"dur\":%.12g,\"args\":{\"rank\":%d,\"stage\":%d",
                          ToString(action), OpName(action.op), Thread(rank),
                          Microseconds(timed.start), Microseconds(timed.end - timed.start), rank,
                          action.stage);
    if (action.micro_batch != Action::kNoMicroBatch)
      absl::StrAppend(&text_, ",\"micro_batch\":", action.micro_batch);
    absl::StrAppend(&text_, "}}");
  }

  void WriteMemory(size_t rank, const MemoryPoint& point, bool bytes) {
    absl::StrAppendFormat(&text_,
                          ",\n{\"name\":\"rank %d %s\",\"ph\":\"C\",\"pid\":1,\"ts\":%.12g,"
                          "\"args\":{\"held\":%.12g}}",
                          rank, bytes ? "bytes" : "activations", Microseconds(point.time),
                          bytes ? point.bytes : point.activations);
  }

  // An arrow from each action to the one on another rank that uses its result.
  void WriteMessages() {
    struct Maker {
      size_t rank;
      const TimedAction* timed = nullptr;
    };
    std::vector<Maker> forwards(cell_.size()), gradients(cell_.size());
    for (size_t rank = 0; rank < run_.rows.size(); ++rank) {
      for (const TimedAction& timed : run_.rows[rank]) {
        const Op op = timed.action.op;
        if (op == Op::kForward) forwards[cell_(timed.action)] = {rank, &timed};
        if (MakesInputGrad(op)) gradients[cell_(timed.action)] = {rank, &timed};
      }
    }
    for (size_t rank = 0; rank < run_.rows.size(); ++rank) {
      for (const TimedAction& timed : run_.rows[rank]) {
        const Action& action = timed.action;
        if (!IsCompute(action.op)) continue;
        const int stage = ProducerStage(table_.placement, action.op, action.stage);
        if (stage == kNoStage) continue;
        const Maker& maker =
            (action.op == Op::kForward ? forwards : gradients)[cell_(stage, action.micro_batch)];
        if (maker.timed != nullptr && maker.rank != rank)
          WriteArrow(maker.rank, *maker.timed, rank, timed);
      }
    }
  }

  void WriteArrow(size_t from_rank, const TimedAction& from, size_t to_rank,
                  const TimedAction& to) {
    const auto end = [&](const char* phase, size_t rank, double time) {
      absl::StrAppendFormat(&text_,
                            ",\n{\"name\":\"%s\",\"cat\":\"message\",\"ph\":%s,\"id\":%d,\"pid\":1,"
                            "\"tid\":%d,\"ts\":%.12g}",
                            ToString(from.action), phase, arrows_, Thread(rank),
                            Microseconds(time));
    };
    end("\"s\"", from_rank, from.end - kInside * (from.end - from.start));
    end("\"f\",\"bp\":\"e\"", to_rank, to.start + kInside * (to.end - to.start));
    ++arrows_;
  }

  const Simulation& run_;
  const Timetable& table_;
  const StageCosts* costs_;
  const CellIndex cell_;
  std::string text_;
  int64_t arrows_ = 0;
};

}  // namespace

std::string RenderTrace(const Simulation& simulation, const Timetable& timetable,
                        const StageCosts* costs) {
  return TraceWriter(simulation, timetable, costs).Write();
}

}  // namespace sluice
