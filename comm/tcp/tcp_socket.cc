#include "comm/tcp/tcp_socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice {
namespace {

constexpr int kBacklog = 256;

Descriptor NewSocket(int family) {
  return Descriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void SetOption(const Descriptor& socket, int level, int name, int value) {
  // All of these are hints: where one is refused, messages are slower, or a dead peer is noticed
  // later.
  (void)setsockopt(socket.get(), level, name, &value, sizeof(value));
}

void SetOptionsOfConnection(const Descriptor& socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

// The other end of the connection is this end: what happens when a port of one's own, taken at
// random, is the one connected to.
bool ConnectedToItself(const Descriptor& socket) {
  const absl::StatusOr<Endpoint> here = LocalEndpoint(socket);
  const absl::StatusOr<Endpoint> there = RemoteEndpoint(socket);
  return here.ok() && there.ok() && here->port == there->port &&
         std::memcmp(&here->address, &there->address, sizeof(in6_addr)) == 0;
}

absl::Status CannotListen(const Endpoint& here, int error) {
  if (error == EADDRINUSE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "port ", here.port, " is taken by another program; choose another (--master-port)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen at ", here.ToString(), ": ", ErrnoText(error)));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string ErrnoText(int error) { return std::generic_category().message(error); }

absl::StatusOr<Descriptor> ListenOn(Endpoint here) {
  Descriptor socket = NewSocket(here.IsIpv4() ? AF_INET : AF_INET6);
  if (!socket.valid() && IN6_IS_ADDR_UNSPECIFIED(&here.address)) {  // a machine without IPv6
    here = Endpoint::AnyIpv4(here.port);
    socket = NewSocket(AF_INET);
  }
  if (!socket.valid()) return CannotListen(here, errno);
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a port whose last owner has just ended
  if (!here.IsIpv4()) SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const SocketAddress native(here);
  if (bind(socket.get(), native.address(), native.length) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return CannotListen(here, errno);
  }
  return socket;
}

bool IsElsewhere(Endpoint endpoint) {
  endpoint.port = 0;
  const Descriptor socket = NewSocket(endpoint.IsIpv4() ? AF_INET : AF_INET6);
  const SocketAddress native(endpoint);
  return bind(socket.get(), native.address(), native.length) != 0 && errno == EADDRNOTAVAIL;
}

absl::StatusOr<Endpoint> LocalEndpoint(const Descriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return absl::UnavailableError(absl::StrCat("getsockname: ", ErrnoText(errno)));
  }
  return Endpoint::Of(storage);
}

absl::StatusOr<Endpoint> RemoteEndpoint(const Descriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return absl::UnavailableError(absl::StrCat("getpeername: ", ErrnoText(errno)));
  }
  return Endpoint::Of(storage);
}

absl::StatusOr<Descriptor> ConnectTo(const Endpoint& endpoint, Instant deadline) {
  const SocketAddress native(endpoint);
  Descriptor socket = NewSocket(native.storage.ss_family);
  if (!socket.valid()) return absl::UnavailableError(absl::StrCat("socket: ", ErrnoText(errno)));
  SetOptionsOfConnection(socket);
  int error = connect(socket.get(), native.address(), native.length) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    if (absl::Status status = AwaitEvents(socket, POLLOUT, deadline); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("no connection to ", endpoint.ToString(),
                                                      ": ", status.message()));
    }
    socklen_t length = sizeof(error);
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0 && ConnectedToItself(socket)) error = ECONNREFUSED;
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("no connection to ", endpoint.ToString(), ": ", ErrnoText(error)));
  }
  return socket;
}

absl::StatusOr<Descriptor> ConnectPatiently(const Endpoint& endpoint, Instant deadline) {
  absl::Duration pause = absl::Milliseconds(20);
  while (true) {
    absl::StatusOr<Descriptor> socket = ConnectTo(endpoint, deadline);
    if (socket.ok() || Instant::Now() + pause >= deadline) return socket;
    absl::SleepFor(pause);
    pause = std::min(2 * pause, absl::Milliseconds(500));
  }
}

absl::StatusOr<Descriptor> AcceptFrom(const Descriptor& listener) {
  Descriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.valid()) {
    SetOptionsOfConnection(socket);
    return socket;
  }
  // All other errors belong to the connection that could not be accepted.
  if (errno == EMFILE || errno == ENFILE || errno == EBADF || errno == EINVAL) {
    return absl::UnavailableError(absl::StrCat("accept: ", ErrnoText(errno)));
  }
  return socket;
}

int PollMilliseconds(Instant deadline) {
  constexpr int64_t kLongest = 1000;  // a longer wait asks again
  const int64_t left =
      absl::ToInt64Milliseconds(deadline - Instant::Now() + absl::Microseconds(999));
  return static_cast<int>(std::clamp<int64_t>(left, 0, kLongest));
}

absl::Status AwaitEvents(const Descriptor& socket, short events, Instant deadline) {
  pollfd waiting{.fd = socket.get(), .events = events, .revents = 0};
  while (poll(&waiting, 1, PollMilliseconds(deadline)) <= 0) {
    if (Instant::Now() >= deadline) return absl::DeadlineExceededError("no answer in time");
  }
  return absl::OkStatus();
}

absl::Status SendAll(const Descriptor& socket, absl::string_view bytes, Instant deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (absl::Status status = AwaitEvents(socket, POLLOUT, deadline); !status.ok()) return status;
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrnoText(errno));
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveSome(const Descriptor& socket, size_t most, std::string* bytes,
                         Instant deadline) {
  while (true) {
    char buffer[4096];
    const ssize_t got = recv(socket.get(), buffer, std::min(most, sizeof(buffer)), 0);
    if (got > 0) {
      bytes->append(buffer, static_cast<size_t>(got));
      return absl::OkStatus();
    }
    if (got == 0) return absl::UnavailableError("connection closed");
    if (errno == EAGAIN) {
      if (absl::Status status = AwaitEvents(socket, POLLIN, deadline); !status.ok()) return status;
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrnoText(errno));
    }
  }
}

}  // namespace sluice
