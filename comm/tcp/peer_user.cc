#include "comm/tcp/peer_user.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

// The columns of the tables.
constexpr size_t kLocal = 1, kRemote = 2, kUser = 7, kInode = 9, kColumns = 10;

// "0100007F:98EB": each word of the address is printed as a number, though it is in network order.
std::optional<Endpoint> ReadEndpoint(absl::string_view text) {
  constexpr size_t kWordDigits = 8;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const size_t words = parts.first.size() / kWordDigits;
  uint32_t port = 0;
  if (parts.first.size() % kWordDigits != 0 || (words != 1 && words != 4)) return std::nullopt;
  if (!absl::SimpleHexAtoi(parts.second, &port)) return std::nullopt;
  Endpoint endpoint = words == 1 ? Endpoint::AnyIpv4(0) : Endpoint::AnyIpv6(0);
  for (size_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    if (!absl::SimpleHexAtoi(parts.first.substr(i * kWordDigits, kWordDigits), &word)) {
      return std::nullopt;
    }
    std::memcpy(&endpoint.address.s6_addr[(4 - words + i) * sizeof(word)], &word, sizeof(word));
  }
  endpoint.port = static_cast<int>(port);
  return endpoint;
}

bool Reads(absl::string_view text, const Endpoint& endpoint) {
  const std::optional<Endpoint> read = ReadEndpoint(text);
  return read && read->port == endpoint.port &&
         std::memcmp(&read->address, &endpoint.address, sizeof(in6_addr)) == 0;
}

}  // namespace

std::optional<uid_t> UserOfSocket(std::istream& table, const Endpoint& local,
                                  const Endpoint& remote) {
  for (std::string line; std::getline(table, line);) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < kColumns || !Reads(fields[kLocal], local) ||
        !Reads(fields[kRemote], remote)) {
      continue;
    }
    uint32_t user = 0;
    uint64_t inode = 0;
    const bool numbers =
        absl::SimpleAtoi(fields[kUser], &user) && absl::SimpleAtoi(fields[kInode], &inode);
    if (!numbers || inode == 0) return std::nullopt;
    return user;
  }
  return std::nullopt;
}

absl::Status CheckSameUser(const Descriptor& socket) {
  const absl::StatusOr<Endpoint> here = LocalEndpoint(socket);
  const absl::StatusOr<Endpoint> there = RemoteEndpoint(socket);
  if (!here.ok()) return here.status();
  if (!there.ok()) return there.status();
  bool told = false;
  // A socket of IPv6 may be connected to an address of IPv4.
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    told = told || table.is_open();
    const std::optional<uid_t> user = UserOfSocket(table, *there, *here);
    if (!user) continue;
    if (*user == geteuid()) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat(there->ToString(), " belongs to another user (number ", *user, ", not ",
                     geteuid(), "); to meet it, set SLUICE_SECRET to the same text for all ranks"));
  }
  if (told) return absl::UnavailableError("connection closed");
  return absl::FailedPreconditionError(
      "this machine does not say to which user a connection belongs (/proc/net/tcp); set "
      "SLUICE_SECRET to the same text for all ranks");
}

}  // namespace sluice
