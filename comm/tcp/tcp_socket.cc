#include "comm/tcp/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice {
namespace {

constexpr int kBacklog = 256;

sockaddr_in6 ToSockaddr(const Endpoint& endpoint) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = endpoint.address;
  address.sin6_port = htons(static_cast<uint16_t>(endpoint.port));
  return address;
}

in6_addr Mapped(const in_addr& address) {
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &address, sizeof(address));
  return mapped;
}

bool IsMapped(const in6_addr& address) { return IN6_IS_ADDR_V4MAPPED(&address); }

// The same address for a socket of either family.
Endpoint FromStorage(const sockaddr_storage& storage) {
  Endpoint endpoint;
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof(v4));
    endpoint.address = Mapped(v4.sin_addr);
    endpoint.port = ntohs(v4.sin_port);
  } else {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof(v6));
    endpoint.address = v6.sin6_addr;
    endpoint.port = ntohs(v6.sin6_port);
  }
  return endpoint;
}

// An endpoint as a sockaddr of its own family: IPv4 addresses use IPv4 sockets, since the machine
// may lack IPv6.
struct Native {
  sockaddr_storage storage{};
  socklen_t length = 0;
  explicit Native(const Endpoint& endpoint) {
    if (!IsMapped(endpoint.address)) {
      const sockaddr_in6 v6 = ToSockaddr(endpoint);
      std::memcpy(&storage, &v6, length = sizeof(v6));
      return;
    }
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_addr, &endpoint.address.s6_addr[12], sizeof(v4.sin_addr));
    v4.sin_port = htons(static_cast<uint16_t>(endpoint.port));
    std::memcpy(&storage, &v4, length = sizeof(v4));
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

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

absl::Status CannotListen(int port, int error) {
  if (error == EADDRINUSE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "port ", port, " is taken by another program; choose another (--master-port)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot listen at port ", port, ": ", ErrnoText(error)));
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

bool Endpoint::IsLoopback() const {
  if (IsMapped(address)) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

std::string Endpoint::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (IsMapped(address)) {
    inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof(text));
    return absl::StrCat(text, ":", port);
  }
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  return absl::StrCat("[", text, "]:", port);
}

bool NamesLoopback(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

std::string ErrnoText(int error) { return std::generic_category().message(error); }

absl::StatusOr<Endpoint> Resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot find the machine '", host, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  // IPv4 first: a listener on every interface hears both, but not every machine has IPv6.
  const addrinfo* best = found;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      best = one;
      break;
    }
  }
  sockaddr_storage storage{};
  std::memcpy(&storage, best->ai_addr, best->ai_addrlen);
  Endpoint endpoint = FromStorage(storage);
  endpoint.port = port;
  return endpoint;
}

absl::StatusOr<Descriptor> ListenOn(bool loopback, int port) {
  Endpoint here;
  here.port = port;
  if (loopback) here.address = Mapped({htonl(INADDR_LOOPBACK)});
  Descriptor socket = NewSocket(loopback ? AF_INET : AF_INET6);
  if (!socket.valid() && !loopback) {  // a machine without IPv6
    here.address = Mapped({htonl(INADDR_ANY)});
    socket = NewSocket(AF_INET);
  }
  if (!socket.valid()) return CannotListen(port, errno);
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a port whose last owner has just ended
  if (!IsMapped(here.address)) SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const Native native(here);
  if (bind(socket.get(), native.address(), native.length) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return CannotListen(port, errno);
  }
  return socket;
}

absl::StatusOr<Endpoint> LocalEndpoint(const Descriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return absl::UnavailableError(absl::StrCat("getsockname: ", ErrnoText(errno)));
  }
  return FromStorage(storage);
}

absl::StatusOr<Endpoint> RemoteEndpoint(const Descriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return absl::UnavailableError(absl::StrCat("getpeername: ", ErrnoText(errno)));
  }
  return FromStorage(storage);
}

absl::StatusOr<Descriptor> ConnectTo(const Endpoint& endpoint, Instant deadline) {
  const Native native(endpoint);
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
