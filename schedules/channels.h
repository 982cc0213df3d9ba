#ifndef SLUICE_SCHEDULES_CHANNELS_H_
#define SLUICE_SCHEDULES_CHANNELS_H_

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "schedules/dependency.h"

namespace sluice {

// Numbers the directed rank pairs between which messages flow.
class Channels {
 public:
  explicit Channels(const Placement& placement) {
    for (int s = 0; s + 1 < placement.stages(); ++s) {
      if (placement.NextStage(s) == kNoStage) continue;
      const std::pair<int, int> edge{placement.rank(s), placement.rank(s + 1)};
      if (edge.first == edge.second) continue;
      pairs_.push_back(edge);
      pairs_.emplace_back(edge.second, edge.first);
    }
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
    for (int s = 0; s < placement.stages(); ++s) {
      for (const Op op : kOps) {
        const int peer = PeerStage(placement, op, s);
        const int here = placement.rank(s);
        const int there = peer == kNoStage ? here : placement.rank(peer);
        of_.push_back(IsSend(op) ? Number(here, there) : Number(there, here));
      }
    }
  }

  size_t size() const { return pairs_.size(); }
  const std::pair<int, int>& ranks(size_t channel) const { return pairs_[channel]; }

  // The channel of a send or receive; -1 when both ends would be on one rank or an end does not
  // exist. Requires a stage of the placement.
  int Of(const Action& action) const {
    const size_t op = static_cast<size_t>(action.op) - static_cast<size_t>(kOps[0]);
    return of_[std::size(kOps) * action.stage + op];
  }

 private:
  static constexpr Op kOps[] = {Op::kSendForward, Op::kRecvForward, Op::kSendBackward,
                                Op::kRecvBackward};

  int Number(int from, int to) const {
    const std::pair<int, int> pair{from, to};
    const auto it = std::lower_bound(pairs_.begin(), pairs_.end(), pair);
    return it != pairs_.end() && *it == pair ? static_cast<int>(it - pairs_.begin()) : -1;
  }

  std::vector<std::pair<int, int>> pairs_;
  std::vector<int> of_;  // [stage][op of kOps]
};

// The channel of a send or receive on the rank that holds its stage; -1 for anything else.
inline int ChannelOf(const Channels& channels, const Placement& placement, int rank,
                     const Action& action) {
  if (!IsCommunication(action.op) || action.stage >= placement.stages()) return -1;
  return placement.rank(action.stage) == rank ? channels.Of(action) : -1;
}

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CHANNELS_H_
