#ifndef SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_MESH_H_
#define SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_MESH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "comm/tcp/greeting_listener.h"
#include "comm/tcp/rendezvous/rendezvous_group.h"
#include "comm/tcp/tcp_link.h"

namespace sluice {

// The last step of a rendezvous: connects every rank with every other one. links[r] leads to rank
// r. Errors are MeetRanks'.
absl::StatusOr<std::vector<TcpLink>> ConnectRanks(const RendezvousContext& context,
                                                  const RendezvousGroup& group,
                                                  GreetingListener* listener);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_MESH_H_
