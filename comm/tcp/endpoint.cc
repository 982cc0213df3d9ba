#include "comm/tcp/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

in6_addr Mapped(const in_addr& address) {
  in6_addr mapped{};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  std::memcpy(&mapped.s6_addr[12], &address, sizeof(address));
  return mapped;
}

}  // namespace

Endpoint Endpoint::AnyIpv4(int port) {
  return {.address = Mapped({htonl(INADDR_ANY)}), .port = port};
}

Endpoint Endpoint::Loopback(int port) {
  return {.address = Mapped({htonl(INADDR_LOOPBACK)}), .port = port};
}

Endpoint Endpoint::Of(const sockaddr_storage& storage) {
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
    endpoint.scope = v6.sin6_scope_id;
  }
  return endpoint;
}

bool Endpoint::IsLoopback() const {
  if (IsIpv4()) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

bool Endpoint::IsUnspecified() const {
  const in6_addr any_ipv4 = AnyIpv4(0).address;
  return IN6_IS_ADDR_UNSPECIFIED(&address) || IN6_ARE_ADDR_EQUAL(&address, &any_ipv4);
}

std::string Endpoint::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (IsIpv4()) {
    inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof(text));
    return absl::StrCat(text, ":", port);
  }
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  return absl::StrCat("[", text, "]:", port);
}

SocketAddress::SocketAddress(const Endpoint& endpoint) {
  if (!endpoint.IsIpv4()) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = endpoint.address;
    v6.sin6_port = htons(static_cast<uint16_t>(endpoint.port));
    v6.sin6_scope_id = endpoint.scope;
    std::memcpy(&storage, &v6, length = sizeof(v6));
    return;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  std::memcpy(&v4.sin_addr, &endpoint.address.s6_addr[12], sizeof(v4.sin_addr));
  v4.sin_port = htons(static_cast<uint16_t>(endpoint.port));
  std::memcpy(&storage, &v4, length = sizeof(v4));
}

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
  const auto later = [](const Endpoint& endpoint) {
    return (endpoint.IsLoopback() ? 2 : 0) + (endpoint.IsIpv4() ? 0 : 1);
  };
  std::optional<Endpoint> best;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, one->ai_addr, one->ai_addrlen);
    const Endpoint endpoint = Endpoint::Of(storage);
    if (!best || later(endpoint) < later(*best)) best = endpoint;
  }
  if (!best) {
    return absl::InvalidArgumentError(absl::StrCat("the machine '", host, "' has no IP address"));
  }
  best->port = port;
  return *best;
}

bool NamesThisMachine(absl::string_view host) {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return false;
  const auto first_label = [](absl::string_view text) { return text.substr(0, text.find('.')); };
  const absl::string_view label = first_label(host);
  return !absl::EqualsIgnoreCase(label, "localhost") &&
         absl::EqualsIgnoreCase(label, first_label(name));
}

}  // namespace sluice
