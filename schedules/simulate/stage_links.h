#ifndef SLUICE_SCHEDULES_SIMULATE_STAGE_LINKS_H_
#define SLUICE_SCHEDULES_SIMULATE_STAGE_LINKS_H_

#include <algorithm>
#include <vector>

#include "schedules/channels.h"
#include "schedules/dependency.h"
#include "schedules/simulate/stage_costs.h"

namespace sluice {

// The exchange of a stage with one of its neighbours, looked up once so that loops over actions do
// no arithmetic on placements.
struct StageLink {
  int stage = kNoStage;  // the neighbour
  int rank = -1;         // the rank that holds it
  bool crosses = false;  // whether that rank is another one
  int to = -1;           // the channel to it, -1 unless it crosses
  double latency = 0;    // from when a result leaves to when it arrives
  double link_busy = 0;  // the part of it during which the channel is held
};

struct StageLinks {
  StageLink previous, next;
};

// [stage]; costs may be null: no latencies.
inline std::vector<StageLinks> LinksOf(const Placement& placement, const Channels& channels,
                                       const StageCosts* costs) {
  std::vector<StageLinks> links(static_cast<size_t>(placement.stages()));
  const auto link = [&](int stage, int peer, Op send) {
    StageLink result;
    result.stage = peer;
    if (peer == kNoStage) return result;
    result.rank = placement.rank(peer);
    result.crosses = result.rank != placement.rank(stage);
    if (!result.crosses) return result;
    result.to = channels.Of({.op = send, .stage = static_cast<uint16_t>(stage)});
    const auto edge = static_cast<size_t>(std::min(stage, peer));
    if (costs == nullptr) return result;
    result.latency = costs->send[edge];
    if (!costs->link_busy.empty()) result.link_busy = costs->link_busy[edge];
    return result;
  };
  for (int s = 0; s < placement.stages(); ++s) {
    links[s].previous = link(s, placement.PreviousStage(s), Op::kSendBackward);
    links[s].next = link(s, placement.NextStage(s), Op::kSendForward);
  }
  return links;
}

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_STAGE_LINKS_H_
