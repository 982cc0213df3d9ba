#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SWEEP_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SWEEP_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// How the step gets shorter with more memory: `schedule compare --memory-sweep`. Memory is counted
// in activations of whole stages: where stages are split, one of a part counts as that part.
struct TradeOffCurve {
  struct Point {
    int limit;
    std::string placement;  // "looped", "v", with the parts where stages are split: "v, 2 parts"
    double makespan;
    double bubble;
    double bound;  // proved for every placement tried
    double gap;
    std::vector<std::string> entries;  // of the catalogue, that do as well with this memory
  };
  struct Entry {
    std::string name;
    int parts;
    double peak;
    double makespan;
    double bubble;
  };
  int ranks = 0;
  int micro_batches = 0;
  std::vector<Point> points;   // by limit
  std::vector<Entry> entries;  // the catalogue, as far as it fits ranks and micro-batches
};

// Without -v and --placement, stages are taken whole and split in two, looped and V.
absl::StatusOr<TradeOffCurve> SweepTradeOff(const ScheduleQuestion& asked);

// A table and a plot of `columns` characters.
std::string TradeOffText(const TradeOffCurve& curve, int columns);
std::string TradeOffSvg(const TradeOffCurve& curve);
nlohmann::ordered_json TradeOffJson(const TradeOffCurve& curve);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SWEEP_H_
