#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SWEEP_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SWEEP_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/schedule/question/schedule_question.h"

namespace sluice {

// How much shorter the step gets with more memory: `schedule compare --memory-sweep`. Memory is
// counted in activations of the given stages: where these are split into chunks, an activation of a
// chunk counts as its share of one.
struct TradeOffCurve {
  struct Point {
    int limit;
    std::string placement;  // "looped", or with several chunks per rank "looped, 2 chunks"
    double makespan;
    double bubble;
    double bound;  // proved for every placement that was tried
    double gap;
    std::vector<std::string> entries;  // of the catalogue, with the same makespan in this memory
  };
  struct Entry {
    std::string name;
    int chunks;  // per rank
    int parts;   // into which each given stage is split: 1, or the chunks
    double peak;
    double makespan;
    double bubble;
  };
  int ranks = 0;
  int micro_batches = 0;
  std::vector<Point> points;   // sorted by limit
  std::vector<Entry> entries;  // the entries of the catalogue that fit ranks and micro-batches
};

// Without -v and --placement it tries whole stages and stages split in two, looped and V.
absl::StatusOr<TradeOffCurve> SweepTradeOff(const ScheduleQuestion& asked);

// What "zbv /2" means in both pictures.
inline constexpr char kPartsNote[] =
    "/2: two stages per rank, each half as long; their activations count half";

// A table and a plot of `columns` characters.
std::string TradeOffText(const TradeOffCurve& curve, int columns);
std::string TradeOffSvg(const TradeOffCurve& curve);
nlohmann::ordered_json TradeOffJson(const TradeOffCurve& curve);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_SWEEP_H_
