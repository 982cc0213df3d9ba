#ifndef SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_HOST_H_
#define SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_HOST_H_

#include "absl/status/statusor.h"
#include "comm/tcp/greeting_listener.h"
#include "comm/tcp/rendezvous/rendezvous_group.h"

namespace sluice {

// Rank 0's step of a rendezvous: waits until all other ranks have joined at `listener` and tells
// them where every rank listens, or why the group cannot be. Errors are MeetRanks'.
absl::StatusOr<RendezvousGroup> GatherRanks(const RendezvousContext& context,
                                            GreetingListener* listener);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_HOST_H_
