#include "comm/tcp/rendezvous_group.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {

std::string RendezvousContext::MeetingPlace() const {
  const std::string& name = launch.address;
  return name.find(':') == std::string::npos ? absl::StrCat(name, ":", host.port)
                                             : absl::StrCat("[", name, "]:", host.port);
}

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
