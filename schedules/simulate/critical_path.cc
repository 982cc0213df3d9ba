#include "schedules/simulate/critical_path.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "schedules/dependency.h"
#include "schedules/simulate/stage_links.h"

namespace sluice {
namespace {

class PathFinder {
 public:
  PathFinder(const Simulation& simulation, const Placement& placement, const StageCosts& costs,
             const StageDeal* deal = nullptr)
      : rows_(simulation.rows),
        placement_(placement),
        deal_(deal),
        channels_(placement),
        links_(LinksOf(placement, channels_, &costs)),
        queues_(!costs.link_busy.empty()) {}

  void Trace(Simulation& simulation) const {
    auto& path = simulation.critical_path;
    auto& why = simulation.critical_path_why;
    std::optional<Spot> spot = LastToEnd();
    while (spot.has_value()) {
      const TimedAction& timed = At(*spot);
      const Cause cause = CauseOf(*spot);
      if (TakesTime(timed.action.op)) {
        path.push_back(timed);
        why.push_back(cause.kind);
      }
      if (cause.kind == Cause::Kind::kStart) break;
      spot = cause.after;
    }
    std::reverse(path.begin(), path.end());
    std::reverse(why.begin(), why.end());
  }

  Cause CauseOf(Spot spot) const {
    const auto& row = rows_[spot.rank];
    size_t first = spot.position;
    if (first > 0 && row[first - 1].action.overlaps_next) --first;
    const double start = row[first].start;
    if (start <= 0) return {};
    const double free = first > 0 ? row[first - 1].end : 0;
    if (first > 0 && free >= start) return {Cause::Kind::kRank, {spot.rank, first - 1}, 0, 0};
    const size_t last = first + (row[first].action.overlaps_next ? 1 : 0);
    Cause latest;
    double latest_arrival = -1;
    for (size_t i = first; i <= last; ++i) {
      const std::optional<Spot> producer = Producer(row[i]);
      if (producer.has_value()) Follow(*producer, row[i], latest, latest_arrival);
    }
    latest.idle = start - free;
    latest.on_link = start - At(latest.after).end;
    return latest;
  }

 private:
  const TimedAction& At(Spot spot) const { return rows_[spot.rank][spot.position]; }

  std::optional<Spot> LastToEnd() const {
    std::optional<Spot> last;
    for (size_t rank = 0; rank < rows_.size(); ++rank) {
      if (rows_[rank].empty() || (last && rows_[rank].back().end <= At(*last).end)) continue;
      last = Spot{static_cast<int>(rank), rows_[rank].size() - 1};
    }
    return last;
  }

  // The link that the result of `action` takes; its stage is kNoStage where it takes none.
  const StageLink& LinkOf(const Action& action) const {
    static constexpr StageLink kNowhere;
    if (action.op == Op::kForward) return links_[action.stage].next;
    return MakesInputGrad(action.op) ? links_[action.stage].previous : kNowhere;
  }

  // Sets `latest` to what made the result at `producer` arrive when it did, where that is later
  // than `latest_arrival`: the producer itself or, when the link was busy, the earlier message that
  // began the queue.
  void Follow(Spot producer, const TimedAction& consumer, Cause& latest,
              double& latest_arrival) const {
    const StageLink& link = LinkOf(At(producer).action);
    const auto consider = [&](double arrival, Cause::Kind kind, Spot after) {
      if (arrival <= latest_arrival) return;
      latest_arrival = arrival;
      latest.kind = kind;
      latest.after = after;
    };
    const auto kind = link.crosses ? Cause::Kind::kMessage : Cause::Kind::kRank;
    consider(At(producer).end + link.latency, kind, producer);
    if (!link.crosses || !queues_) return;
    // Sums of the same durations in another order: equal up to rounding.
    constexpr double kRounding = 1e-9;
    const double due = consumer.start * (1 - kRounding);
    double queue = 0;
    for (size_t i = producer.position; latest_arrival < due && i-- > 0;) {
      const Spot earlier{producer.rank, i};
      const StageLink& other = LinkOf(At(earlier).action);
      if (other.to != link.to) continue;
      queue += other.link_busy;
      consider(At(earlier).end + queue + link.latency, Cause::Kind::kLink, earlier);
    }
  }

  // The compute action whose result `timed` uses, found by time: rows are sorted by it.
  std::optional<Spot> Producer(const TimedAction& timed) const {
    const Action& action = timed.action;
    const int stage = ProducerStage(placement_, action.op, action.stage);
    if (stage == kNoStage) return std::nullopt;
    const int rank =
        deal_ == nullptr ? placement_.rank(stage) : deal_->rank(stage, action.micro_batch);
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
  const StageDeal* const deal_;
  const Channels channels_;
  const std::vector<StageLinks> links_;
  const bool queues_;  // whether messages wait for their links
};

}  // namespace

const char* CauseName(Cause::Kind kind) {
  switch (kind) {
    case Cause::Kind::kStart:
      return "start";
    case Cause::Kind::kRank:
      return "rank";
    case Cause::Kind::kMessage:
      return "message";
    case Cause::Kind::kLink:
      return "link";
  }
  return "";
}

Cause FindCause(const Simulation& simulation, const Placement& placement, const StageCosts& costs,
                Spot spot) {
  return PathFinder(simulation, placement, costs).CauseOf(spot);
}

void FindCriticalPath(const Placement& placement, const StageCosts& costs, Simulation* simulation,
                      const StageDeal* deal) {
  PathFinder(*simulation, placement, costs, deal).Trace(*simulation);
}

}  // namespace sluice
