#ifndef SLUICE_COMM_TCP_PEER_USER_H_
#define SLUICE_COMM_TCP_PEER_USER_H_

#include <sys/types.h>

#include <istream>
#include <optional>

#include "absl/status/status.h"
#include "comm/tcp/endpoint.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

// Whether the other end of a connection within this machine belongs to the user of this process.
// What ranks without a secret have instead of one: every user of a machine can connect to a loopback
// address, but only the kernel says whose socket is at the other end.
//
// PermissionDenied names the other user; Unavailable where the other end is closed, or not accepted
// yet; FailedPrecondition where the system does not say.
absl::Status CheckSameUser(const Descriptor& socket);

// The user of the socket at `local` that is connected to `remote`, by a table like /proc/net/tcp or
// /proc/net/tcp6. Nothing where no process has such a socket: the kernel lists those without a
// process as root's.
std::optional<uid_t> UserOfSocket(std::istream& table, const Endpoint& local,
                                  const Endpoint& remote);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_PEER_USER_H_
