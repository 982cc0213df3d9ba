#ifndef SLUICE_SCHEDULES_CHANNELS_H_
#define SLUICE_SCHEDULES_CHANNELS_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "schedules/dependency.h"

namespace sluice {

// Numbers the directed rank pairs between which messages flow.
class Channels {
 public:
  explicit Channels(const Placement& placement) : placement_(placement) {
    for (int s = 0; s + 1 < placement.stages(); ++s) {
      if (placement.NextStage(s) == kNoStage) continue;
      const std::pair<int, int> edge{placement.rank(s), placement.rank(s + 1)};
      if (edge.first == edge.second) continue;
      pairs_.push_back(edge);
      pairs_.emplace_back(edge.second, edge.first);
    }
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
    for (int s = 0; s + 1 < placement.stages(); ++s) {
      down_.push_back(Number(placement.rank(s), placement.rank(s + 1)));
      up_.push_back(Number(placement.rank(s + 1), placement.rank(s)));
    }
  }

  size_t size() const { return pairs_.size(); }
  const std::pair<int, int>& ranks(size_t channel) const { return pairs_[channel]; }

  // The channel of a send or receive; -1 when both ends would be on one rank or an end does not
  // exist.
  int Of(const Action& action) const {
    const bool forward = action.op == Op::kSendForward || action.op == Op::kRecvForward;
    const int peer = PeerStage(placement_, action.op, action.stage);
    if (peer == kNoStage) return -1;
    const int lower = std::min<int>(action.stage, peer);
    return forward ? down_[lower] : up_[lower];
  }

 private:
  int Number(int from, int to) const {
    const std::pair<int, int> pair{from, to};
    const auto it = std::lower_bound(pairs_.begin(), pairs_.end(), pair);
    return it != pairs_.end() && *it == pair ? static_cast<int>(it - pairs_.begin()) : -1;
  }

  const Placement& placement_;
  std::vector<std::pair<int, int>> pairs_;
  std::vector<int> down_;
  std::vector<int> up_;
};

// The channel of a send or receive on the rank that holds its stage; -1 for anything else.
inline int ChannelOf(const Channels& channels, const Placement& placement, int rank,
                     const Action& action) {
  if (!IsCommunication(action.op) || action.stage >= placement.stages()) return -1;
  return placement.rank(action.stage) == rank ? channels.Of(action) : -1;
}

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CHANNELS_H_
