#ifndef SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_H_
#define SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/launch.h"
#include "comm/tcp/tcp_link.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

// Whoever overhears a proof can try secrets without anybody noticing; so many bytes, if they were
// drawn at random, cannot be tried.
inline constexpr size_t kLeastSecretBytes = 16;

// Lets all ranks of a launch meet at rank 0, and connects every rank with every other one. links[r]
// leads to rank r; the rank's own is empty. `listener` is where rank 0 listens already; without one
// it listens at launch.port. Both sides prove that they know the secret (greeting.h).
//
// Errors, on every rank that can be told: InvalidArgument for a taken port, two processes with one
// rank, different world sizes, another secret, another version; DeadlineExceeded names the ranks
// that did not come, and who else did. An empty secret is only allowed on the loopback interface, and
// there only between processes of one user (PermissionDenied names another one); one of fewer than
// kLeastSecretBytes, too.
absl::StatusOr<std::vector<TcpLink>> MeetRanks(const Launch& launch, const std::string& secret,
                                               absl::Duration timeout, Descriptor listener);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_H_
