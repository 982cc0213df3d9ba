#include "comm/tcp/diagnosis.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// Heartbeats that a rank may miss before it is suspected, and before it is taken for lost: a loaded
// machine may delay one.
constexpr int kSuspected = 2;
constexpr int kLost = 3;
constexpr absl::Duration kLongestHeartbeat = absl::Seconds(1);
constexpr absl::Duration kShortestHeartbeat = absl::Milliseconds(1);

std::string Milliseconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms");
}

class Diagnosis {
 public:
  Diagnosis(int self, absl::Span<const RankHealth> ranks, absl::Duration heartbeat)
      : self_(self), ranks_(ranks), heartbeat_(heartbeat), named_(ranks.size(), false) {}

  PeerHealth Describe(int late) {
    FollowChain(late);
    NameQuietest();
    return {words_.empty() ? "" : absl::StrCat(" (", absl::StrJoin(words_, "; "), ")"),
            suspect_ == kNoRank ? late : suspect_};
  }

 private:
  const RankHealth& Of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }

  // Whether the rank is known already, or named now.
  bool IsNamed(int rank) const { return rank == self_ || named_[static_cast<size_t>(rank)]; }

  void FollowChain(int rank) {
    while (rank != kNoRank && !IsNamed(rank) && !NameIfSilent(rank)) {
      named_[static_cast<size_t>(rank)] = true;
      const RankHealth& health = Of(rank);
      const std::string heard =
          absl::StrCat("rank ", rank, " was heard of ", Milliseconds(health.silence), " ago");
      words_.push_back(health.awaits == kNoRank
                           ? heard
                           : absl::StrCat(heard, " and waits for rank ", health.awaits));
      if (NameIfSilentForOther(rank)) return;
      rank = health.awaits;
    }
  }

  void Suspect(int rank) {
    named_[static_cast<size_t>(rank)] = true;
    if (suspect_ == kNoRank) suspect_ = rank;
  }

  // Of a rank of which this one has heard nothing.
  bool NameIfSilent(int rank) {
    const absl::Duration silence = Of(rank).silence;
    if (silence < kSuspected * heartbeat_) return false;
    Suspect(rank);
    words_.push_back(absl::StrCat(
        "nothing has been heard of rank ", rank, " for ", Milliseconds(silence), ": it ",
        silence < kLost * heartbeat_ ? "may be" : "is", " stopped or cut off"));
    return true;
  }

  // Of a rank of which `witness` has heard nothing although it waits for it, while this one still
  // hears it.
  bool NameIfSilentForOther(int witness) {
    const RankHealth& health = Of(witness);
    if (health.awaits == kNoRank || IsNamed(health.awaits)) return false;
    const bool is_heard_here = Of(health.awaits).silence < kSuspected * heartbeat_;
    if (!is_heard_here || health.awaited_silence < kLost * heartbeat_) return false;
    Suspect(health.awaits);
    words_.push_back(absl::StrCat("rank ", witness, " has heard nothing of rank ", health.awaits,
                                  " for ", Milliseconds(health.awaited_silence),
                                  ": it is stopped or cut off"));
    return true;
  }

  void NameQuietest() {
    int quietest = kNoRank;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (rank == self_) continue;
      if (quietest == kNoRank || Of(rank).silence > Of(quietest).silence) quietest = rank;
    }
    if (quietest == kNoRank || IsNamed(quietest)) return;
    if (Of(quietest).silence >= kLost * heartbeat_) NameIfSilent(quietest);
  }

  const int self_;
  const absl::Span<const RankHealth> ranks_;
  const absl::Duration heartbeat_;
  std::vector<bool> named_;  // [rank]: `words_` say something of it
  std::vector<std::string> words_;
  int suspect_ = kNoRank;
};

}  // namespace

absl::Duration HeartbeatFor(absl::Duration timeout) {
  // What is heard of a rank may be one heartbeat old when it falls silent, and what another rank
  // says of its silence one more.
  return std::clamp(timeout / (kLost + 2), kShortestHeartbeat, kLongestHeartbeat);
}

PeerHealth DescribeLate(int self, int late, absl::Span<const RankHealth> ranks,
                        absl::Duration heartbeat) {
  return Diagnosis(self, ranks, heartbeat).Describe(late);
}

}  // namespace sluice
