#ifndef SLUICE_COMM_TCP_TCP_H_
#define SLUICE_COMM_TCP_TCP_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

struct TcpOptions {
  std::string secret{};                         // may be short or empty on the loopback interface
  absl::Duration timeout = absl::Seconds(30);   // for all ranks to meet
  size_t capacity = 1024;                       // messages outstanding on an edge
  absl::Duration spin = absl::ZeroDuration();   // how long a wait spins before it sleeps
  absl::Duration heartbeat = absl::Seconds(1);  // between two signs of life (HeartbeatFor)
  absl::Duration shutdown_timeout =
      absl::Milliseconds(2000);  // for peers to hear that this rank shuts down
};

// Joins the other ranks of `launch` and returns this rank's end of the group: one thread, two
// connections to each peer. Errors are MeetRanks'. A peer whose process ends makes every call of
// every rank return Unavailable "rank 3 is gone (connection closed)" at once; one that is stopped
// or cut off is noticed by the deadline of whoever waits for it.
//
// `listener`: a listening socket of ListenOn for rank 0 to use; without one, rank 0 listens at
// launch.port.
absl::StatusOr<std::unique_ptr<Communicator>> OpenTcp(const Launch& launch,
                                                      const TcpOptions& options,
                                                      Descriptor listener = {});

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_TCP_H_
