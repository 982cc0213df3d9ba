#include "schedules/critical_path.h"

#include <algorithm>
#include <optional>

#include "schedules/dependency.h"

namespace sluice {
namespace {

struct Spot {
  int rank;
  size_t position;
};

class PathFinder {
 public:
  PathFinder(const Simulation& simulation, const Placement& placement, const StageCosts& costs)
      : rows_(simulation.rows), placement_(placement), costs_(costs) {}

  std::vector<TimedAction> Find(double makespan) const {
    std::vector<TimedAction> path;
    std::optional<Spot> spot = LastToEnd(makespan);
    while (spot.has_value()) {
      const TimedAction& timed = At(*spot);
      if (IsCompute(timed.action.op) || timed.action.op == Op::kRecompute) path.push_back(timed);
      if (timed.start <= 0) break;
      spot = Before(*spot);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  const TimedAction& At(Spot spot) const { return rows_[spot.rank][spot.position]; }

  std::optional<Spot> LastToEnd(double makespan) const {
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (!rows_[rank].empty() && rows_[rank].back().end >= makespan) {
        return Spot{static_cast<int>(rank), rows_[rank].size() - 1};
      }
    }
    return std::nullopt;
  }

  // What made the action at `spot` start when it did: the action before it on its rank, else the
  // arrival that it, or the other half of its pair, waited for.
  std::optional<Spot> Before(Spot spot) const {
    const auto& row = rows_[spot.rank];
    size_t first = spot.position;
    if (first > 0 && row[first - 1].action.overlaps_next) --first;
    if (first > 0 && row[first - 1].end >= row[first].start) return Spot{spot.rank, first - 1};
    const size_t last = first + (row[first].action.overlaps_next ? 1 : 0);
    std::optional<Spot> latest;
    double latest_arrival = -1;
    for (size_t i = first; i <= last; ++i) {
      const std::optional<Spot> producer = Producer(row[i]);
      if (!producer.has_value()) continue;
      const double arrival =
          At(*producer).end + Latency(At(*producer).action.stage, row[i].action.stage);
      if (arrival <= latest_arrival) continue;
      latest_arrival = arrival;
      latest = producer;
    }
    return latest;
  }

  double Latency(int from, int to) const {
    return placement_.rank(from) == placement_.rank(to) ? 0 : costs_.send[std::min(from, to)];
  }

  // The compute action whose result `timed` uses, found by time: rows are sorted by it.
  std::optional<Spot> Producer(const TimedAction& timed) const {
    const Action& action = timed.action;
    const int stage = ProducerStage(placement_, action.op, action.stage);
    if (stage == kNoStage) return std::nullopt;
    const int rank = placement_.rank(stage);
    const auto& row = rows_[rank];
    const auto after =
        std::upper_bound(row.begin(), row.end(), timed.start,
                         [](double time, const TimedAction& t) { return time < t.start; });
    for (auto it = after; it != row.begin();) {
      const Action& candidate = (--it)->action;
      const bool same_kind =
          action.op == Op::kForward ? candidate.op == Op::kForward : MakesInputGrad(candidate.op);
      if (same_kind && candidate.stage == stage && candidate.micro_batch == action.micro_batch) {
        return Spot{rank, static_cast<size_t>(it - row.begin())};
      }
    }
    return std::nullopt;
  }

  const std::vector<std::vector<TimedAction>>& rows_;
  const Placement& placement_;
  const StageCosts& costs_;
};

}  // namespace

std::vector<TimedAction> FindCriticalPath(const Simulation& simulation, const Placement& placement,
                                          const StageCosts& costs) {
  return PathFinder(simulation, placement, costs).Find(simulation.makespan);
}

}  // namespace sluice
