#ifndef SLUICE_COMM_TCP_ENDPOINT_H_
#define SLUICE_COMM_TCP_ENDPOINT_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// An IP address and a port; IPv4 as mapped into IPv6 (::ffff:a.b.c.d), so that there is one kind.
struct Endpoint {
  in6_addr address{};
  int port = 0;
  // The network interface of a link-local IPv6 address (fe80::1%eth0), as this machine numbers it.
  uint32_t scope = 0;

  // `port` of every interface, or only of loopback's.
  static Endpoint AnyIpv6(int port) { return {.port = port}; }
  static Endpoint AnyIpv4(int port);
  static Endpoint Loopback(int port);  // of IPv4
  // What the system says of a socket of either family.
  static Endpoint Of(const sockaddr_storage& storage);

  bool IsIpv4() const { return IN6_IS_ADDR_V4MAPPED(&address); }
  bool IsLoopback() const;
  bool IsUnspecified() const;    // every interface: an address to listen at, which no machine has
  std::string ToString() const;  // "10.0.0.7:29500", "[fe80::1]:29500"
};

// The best of the addresses that a name stands for. Those beyond loopback come first, so the result
// is a loopback address only where all of them are. InvalidArgument for a host that cannot be found.
absl::StatusOr<Endpoint> Resolve(const std::string& host, int port);

// Whether `host` is what this machine calls itself. Debian and others resolve that name to a
// loopback address on the machine itself, and to another one everywhere else.
bool NamesThisMachine(absl::string_view host);

// An endpoint as a sockaddr of its own family: IPv4 addresses use IPv4 sockets, since the machine
// may lack IPv6.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  explicit SocketAddress(const Endpoint& endpoint);
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_ENDPOINT_H_
