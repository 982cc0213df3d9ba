#ifndef SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_GROUP_H_
#define SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_GROUP_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/launch.h"
#include "comm/tcp/greeting.h"
#include "comm/tcp/tcp_socket.h"
#include "models/device/instant.h"

// What the steps of a rendezvous share. Not for use outside of comm/tcp/rendezvous*.
namespace sluice {

// What every step needs to know.
struct RendezvousContext {
  const Launch& launch;
  const std::string& secret;
  absl::Duration timeout;
  Instant deadline;
  Endpoint host;  // where rank 0 listens, as this rank reaches it

  size_t ranks() const { return static_cast<size_t>(launch.size); }
  std::string MeetingPlace() const;  // "host-a:29500", "[fd00::7]:29500"
};

// The ranks of the group and where they listen, as every rank knows it in the end.
struct RendezvousGroup {
  Nonce session{};
  std::vector<TableRow> table{};
};

// The next greeting over a connection. Unavailable where the other side hangs up, which it may do to
// a rank that is not at fault: another attempt may succeed.
absl::StatusOr<Greeting> ReceiveGreeting(const Descriptor& socket, Instant deadline);

// The random number with which the side that accepted a connection begins. Where there is no secret
// it must belong to this process's user (errors are CheckSameUser's).
absl::StatusOr<Nonce> ReceiveChallenge(const RendezvousContext& context, const Descriptor& socket);

// What the other side answers to a Join or a Link with this nonce, and whether it proves that it
// knows the secret.
struct Answer {
  Greeting greeting;
  bool proven = false;

  bool refuses() const {
    return greeting.kind == GreetingKind::kRefusal || greeting.kind == GreetingKind::kIncomplete;
  }
};
absl::StatusOr<Answer> ReceiveAnswer(const RendezvousContext& context, const Descriptor& socket,
                                     const Nonce& nonce);

// Before another attempt: sleeps, twice as long each time. False where the deadline is too near.
class AttemptPause {
 public:
  bool Sleep(Instant deadline);

 private:
  absl::Duration next_ = absl::Milliseconds(20);
};

TableRow RowOf(const Endpoint& endpoint);
Endpoint EndpointOf(const TableRow& row);

// "rank 3" or "ranks 3, 5", for errors.
std::string RankList(const std::vector<int>& ranks);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_RENDEZVOUS_RENDEZVOUS_GROUP_H_
