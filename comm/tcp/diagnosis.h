#ifndef SLUICE_COMM_TCP_DIAGNOSIS_H_
#define SLUICE_COMM_TCP_DIAGNOSIS_H_

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/message_queue.h"

namespace sluice {

// A rank's answer to the question which rank it waits for, where it waits for none.
inline constexpr int kNoRank = -1;

// What this rank knows of another one.
struct RankHealth {
  absl::Duration silence;  // since anything was heard of it
  // By its last heartbeat: the rank that it waits for, and how long it had heard nothing of that
  // one.
  int awaits = kNoRank;
  absl::Duration awaited_silence;
};

// The time between two signs of life for ranks that wait for each other for `timeout` at most: a
// second, or less where a rank that is silent would not be known in time. All ranks must have the
// same.
absl::Duration HeartbeatFor(absl::Duration timeout);

// Why a message from or to rank `late` may not have come in time, for an error of rank `self`, and
// which rank is probably lost: the first silent one that it names, else `late`. `ranks`: all of
// them, by rank; that of `self` is not used. `heartbeat`: the time between two signs of life of a
// healthy rank.
//
// Ranks wait for each other in chains, and any of them may miss its deadline first. So this follows
// the chain from `late` up to a rank that is silent, or that waits for no rank, and names them all;
// it then adds the rank that has been silent longest, where that is none of them.
PeerHealth DescribeLate(int self, int late, absl::Span<const RankHealth> ranks,
                        absl::Duration heartbeat);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_DIAGNOSIS_H_
