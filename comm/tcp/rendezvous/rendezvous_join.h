#ifndef SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_JOIN_H_
#define SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_JOIN_H_

#include "absl/status/statusor.h"
#include "comm/tcp/rendezvous/rendezvous_group.h"

namespace sluice {

// The step of every rank but rank 0: joins at rank 0, says that it listens at `port`, and learns
// where every rank listens. Errors are MeetRanks'.
absl::StatusOr<RendezvousGroup> JoinRanks(const RendezvousContext& context, int port);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_JOIN_H_
