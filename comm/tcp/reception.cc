#include "comm/tcp/reception.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

constexpr size_t kMostVisitors = 256;
constexpr absl::Duration kPatience = absl::Seconds(10);

}  // namespace

void Refuse(const Descriptor& socket, const std::string& why, GreetingKind kind) {
  (void)SendAll(socket, FormatGreeting({.kind = kind, .text = why}), Instant::Now());
}

Reception::Reception(Descriptor listener, std::string secret)
    : listener_(std::move(listener)), secret_(std::move(secret)) {}

std::string Reception::Dropped() const {
  if (dropped_ == 0) return "";
  return absl::StrCat("; ", dropped_, dropped_ == 1 ? " connection was" : " connections were",
                      " dropped, the last one from ", last_dropped_);
}

void Reception::Drop(Visitor& visitor, const std::string& why) {
  ++dropped_;
  last_dropped_ = absl::StrCat(visitor.guest.from.ToString(), ": ", why);
  visitor.guest.socket.Close();
}

void Reception::Sweep() {
  for (Visitor& visitor : visitors_) {
    if (visitor.guest.socket.valid() && Instant::Now() > visitor.patience) {
      Drop(visitor, visitor.bytes.empty() ? "it said nothing" : "it stopped in mid-greeting");
    }
  }
  visitors_.remove_if([](const Visitor& visitor) { return !visitor.guest.socket.valid(); });
}

absl::StatusOr<Reception::Guest> Reception::Next(GreetingKind kind, Instant deadline) {
  while (true) {
    std::vector<pollfd> waiting = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Visitor& visitor : visitors_) {
      waiting.push_back({.fd = visitor.guest.socket.get(), .events = POLLIN, .revents = 0});
    }
    (void)poll(waiting.data(), waiting.size(), PollMilliseconds(deadline));
    size_t next = 1;
    for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++visitor) {
      if (waiting[next++].revents == 0 || !Listen(*visitor, kind)) continue;
      Guest guest = std::move(visitor->guest);
      visitors_.erase(visitor);
      return guest;
    }
    Sweep();
    absl::Status status;
    if (waiting[0].revents != 0) AcceptAll(&status);
    if (!status.ok()) return status;
    if (Instant::Now() >= deadline) return absl::DeadlineExceededError("nobody came");
  }
}

void Reception::AcceptAll(absl::Status* status) {
  while (true) {
    absl::StatusOr<Descriptor> socket = AcceptFrom(listener_);
    const absl::StatusOr<Nonce> challenge = DrawNonce();
    *status = socket.ok() ? challenge.status() : socket.status();
    if (!status->ok() || !socket->valid()) return;
    const absl::StatusOr<Endpoint> from = RemoteEndpoint(*socket);
    if (!from.ok()) continue;  // gone again
    if (visitors_.size() >= kMostVisitors) {
      Drop(visitors_.front(), "it said nothing while many others came");
      visitors_.pop_front();
    }
    Visitor& visitor = visitors_.emplace_back();
    visitor.guest.socket = *std::move(socket);
    visitor.guest.from = *from;
    visitor.guest.challenge = *challenge;
    visitor.patience = Instant::Now() + kPatience;
    const std::string greeting =
        FormatGreeting({.kind = GreetingKind::kChallenge, .nonce = *challenge});
    if (!SendAll(visitor.guest.socket, greeting, Instant::Now()).ok()) Drop(visitor, "it hung up");
  }
}

bool Reception::Listen(Visitor& visitor, GreetingKind kind) {
  // Not one byte too many: what follows the greeting is the transport's.
  const absl::Status received =
      ReceiveSome(visitor.guest.socket, GreetingBytesMissing(visitor.bytes), &visitor.bytes,
                  Instant::InfinitePast());
  if (absl::IsDeadlineExceeded(received)) return false;
  if (!received.ok()) {
    Drop(visitor, absl::StrCat("it hung up (", received.message(), ")"));
    return false;
  }
  size_t used = 0;
  absl::StatusOr<Greeting> greeting = ParseGreeting(visitor.bytes, &used);
  std::string wrong;
  if (!greeting.ok()) {
    wrong = std::string(greeting.status().message());
  } else if (used == 0) {
    return false;
  } else if (greeting->kind != kind) {
    wrong = kind == GreetingKind::kLink ? "the group is complete already" : "this is rank 0's port";
  } else if (!IsProven(*greeting, visitor.guest.challenge, secret_)) {
    wrong = absl::StrCat("rank ", greeting->rank, " has another secret (SLUICE_SECRET)");
  }
  if (wrong.empty()) {
    visitor.guest.greeting = *std::move(greeting);
    return true;
  }
  Refuse(visitor.guest.socket, wrong);
  Drop(visitor, wrong);
  return false;
}

}  // namespace sluice
