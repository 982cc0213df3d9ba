#include "comm/tcp/rendezvous_group.h"

#include "absl/strings/str_join.h"

namespace sluice {

absl::StatusOr<Greeting> ReceiveGreeting(const Descriptor& socket, Instant deadline) {
  std::string bytes;
  while (true) {
    absl::Status status = ReceiveSome(socket, GreetingBytesMissing(bytes), &bytes, deadline);
    if (!status.ok()) return status;
    size_t used = 0;
    absl::StatusOr<Greeting> greeting = ParseGreeting(bytes, &used);
    if (!greeting.ok() || used > 0) return greeting;
  }
}

std::string RankList(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

}  // namespace sluice
