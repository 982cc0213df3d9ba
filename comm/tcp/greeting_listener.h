#ifndef SLUICE_COMM_TCP_GREETING_LISTENER_H_
#define SLUICE_COMM_TCP_GREETING_LISTENER_H_

#include <list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/tcp/greeting.h"
#include "comm/tcp/tcp_socket.h"
#include "models/device/instant.h"

namespace sluice {

// The accepting side of greetings: sends a challenge over each new connection and accepts those
// whose callers prove that they know the secret, or, where there is none, belong to this process's
// user. Connections that fail, send garbage or stay silent are dropped.
class GreetingListener {
 public:
  // The other side of a connection, once its greeting has been proven.
  struct Caller {
    Descriptor socket{};
    Endpoint from{};
    Endpoint at{};  // where it has reached this rank
    Nonce challenge{};
    Greeting greeting{};
  };

  GreetingListener(Descriptor listener, std::string secret);

  // The next caller with a proven greeting of this kind. DeadlineExceeded where none came,
  // Unavailable where this machine accepts no connection.
  absl::StatusOr<Caller> Next(GreetingKind kind, Instant deadline);

  // Tells a caller of Next why it is refused, where that can be sent without waiting.
  void Refuse(const Caller& caller, const std::string& why,
              GreetingKind kind = GreetingKind::kRefusal) const;
  // Refuses it and hangs up; DescribeDropped counts it.
  void Drop(Caller& caller, const std::string& why);

  // Hangs up alone, where no answer would be understood any more.
  void HangUp(Caller& caller, const std::string& why);

  // The connections that were dropped, for errors: "" or "; 2 connections were dropped, the last
  // one from ...".
  std::string DescribeDropped() const;

 private:
  // A connection that has not been proven yet.
  struct PendingCaller {
    Caller caller;
    std::string bytes{};
    Instant deadline{};
  };

  void AcceptAll(absl::Status* status);
  // Reads what has come; returns whether the greeting is whole and proven.
  bool ReadGreeting(PendingCaller& pending, GreetingKind kind);
  void DropExpired();

  Descriptor listener_;
  const std::string secret_;
  std::list<PendingCaller> pending_;
  int dropped_ = 0;
  std::string last_dropped_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_GREETING_LISTENER_H_
