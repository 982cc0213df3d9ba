#ifndef SLUICE_COMM_TCP_RECEPTION_H_
#define SLUICE_COMM_TCP_RECEPTION_H_

#include <list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/tcp/greeting.h"
#include "comm/tcp/tcp_socket.h"
#include "models/device/instant.h"

namespace sluice {

// The accepting side of greetings: challenges everybody who connects and lets in who proves to know
// the secret. Who does not, sends garbage or says nothing is dropped, and the rest goes on.
class Reception {
 public:
  struct Guest {
    Descriptor socket{};
    Endpoint from{};
    Nonce challenge{};
    Greeting greeting{};
  };

  Reception(Descriptor listener, std::string secret);

  // The next guest with a proven greeting of this kind. DeadlineExceeded where none came, otherwise
  // Unavailable where this machine lets nobody in.
  absl::StatusOr<Guest> Next(GreetingKind kind, Instant deadline);

  // What became of those who were dropped: "" or "; 2 connections were dropped, the last one ...".
  std::string Dropped() const;

 private:
  struct Visitor {
    Guest guest;
    std::string bytes{};
    Instant patience{};
  };

  void AcceptAll(absl::Status* status);
  // Reads what has come; true once the visitor's greeting is whole and proven.
  bool Listen(Visitor& visitor, GreetingKind kind);
  void Drop(Visitor& visitor, const std::string& why);
  void Sweep();

  Descriptor listener_;
  const std::string secret_;
  std::list<Visitor> visitors_;
  int dropped_ = 0;
  std::string last_dropped_;
};

// Tells the other side why it is not let in; best effort, does not wait.
void Refuse(const Descriptor& socket, const std::string& why,
            GreetingKind kind = GreetingKind::kRefusal);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_RECEPTION_H_
