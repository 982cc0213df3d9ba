#ifndef SLUICE_COMM_TCP_TCP_SOCKET_H_
#define SLUICE_COMM_TCP_TCP_SOCKET_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comm/tcp/endpoint.h"
#include "models/device/instant.h"

namespace sluice {

// Owns a file descriptor; -1 is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int fd_ = -1;
};

// Errors of all of these are Unavailable, DeadlineExceeded or InvalidArgument (a port taken), and
// say with whom. Sockets do not block.
// `here`: an address of this machine, or Endpoint::AnyIpv6 for all of them, of IPv4 too. Port 0 takes
// a free one.
absl::StatusOr<Descriptor> ListenOn(Endpoint here);
// Whether this machine has no interface with this address, whatever the port.
bool IsElsewhere(Endpoint endpoint);
absl::StatusOr<Endpoint> LocalEndpoint(const Descriptor& socket);
absl::StatusOr<Endpoint> RemoteEndpoint(const Descriptor& socket);
// One attempt.
absl::StatusOr<Descriptor> ConnectTo(const Endpoint& endpoint, Instant deadline);
// Attempts until the deadline, since the other side may not listen yet.
absl::StatusOr<Descriptor> ConnectPatiently(const Endpoint& endpoint, Instant deadline);
// No descriptor where nobody is waiting.
absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener);

// Until `events` (of poll) or the deadline (DeadlineExceeded).
absl::Status AwaitEvents(const Descriptor& socket, short events, Instant deadline);
absl::Status SendAll(const Descriptor& socket, absl::string_view bytes, Instant deadline);
// Appends what is there to `bytes`, up to `most` of them; blocks until there is something.
absl::Status ReceiveSome(const Descriptor& socket, size_t most, std::string* bytes,
                         Instant deadline);

// How long poll may sleep, in milliseconds, rounded up.
int PollMilliseconds(Instant deadline);
std::string ErrnoText(int error);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_TCP_SOCKET_H_
