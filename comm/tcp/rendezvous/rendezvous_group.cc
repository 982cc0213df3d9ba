#include "comm/tcp/rendezvous/rendezvous_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "comm/tcp/greeting_proof.h"
#include "comm/tcp/peer_user.h"

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

absl::StatusOr<Nonce> ReceiveChallenge(const RendezvousContext& context, const Descriptor& socket) {
  const absl::StatusOr<Greeting> greeting = ReceiveGreeting(socket, context.deadline);
  if (!greeting.ok()) return greeting.status();
  if (greeting->kind != GreetingKind::kChallenge) {
    return absl::InvalidArgumentError("it speaks out of turn");
  }
  // Now that it has spoken, a process has accepted the connection, and the kernel says whose it is.
  const absl::Status same = context.secret.empty() ? CheckSameUser(socket) : absl::OkStatus();
  return same.ok() ? absl::StatusOr<Nonce>(greeting->nonce) : same;
}

absl::StatusOr<Answer> ReceiveAnswer(const RendezvousContext& context, const Descriptor& socket,
                                     const Nonce& nonce) {
  absl::StatusOr<Greeting> greeting = ReceiveGreeting(socket, context.deadline);
  if (!greeting.ok()) return greeting.status();
  const bool proven = IsProven(*greeting, nonce, context.secret);
  return Answer{.greeting = *std::move(greeting), .proven = proven};
}

bool AttemptPause::Sleep(Instant deadline) {
  constexpr absl::Duration kLongest = absl::Seconds(1);
  if (Instant::Now() + next_ >= deadline) return false;
  absl::SleepFor(next_);
  next_ = std::min(2 * next_, kLongest);
  return true;
}

TableRow RowOf(const Endpoint& endpoint) {
  TableRow row;
  std::memcpy(row.address.data(), &endpoint.address, row.address.size());
  row.port = static_cast<uint16_t>(endpoint.port);
  return row;
}

Endpoint EndpointOf(const TableRow& row) {
  Endpoint endpoint;
  std::memcpy(&endpoint.address, row.address.data(), row.address.size());
  endpoint.port = row.port;
  return endpoint;
}

std::string RankList(const std::vector<int>& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

}  // namespace sluice
