#include "comm/tcp/greeting_listener.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/printable.h"
#include "comm/tcp/greeting_proof.h"
#include "comm/tcp/peer_user.h"

namespace sluice {
namespace {

constexpr size_t kMostPending = 256;
constexpr absl::Duration kGreetingTimeout = absl::Seconds(10);

}  // namespace

GreetingListener::GreetingListener(Descriptor listener, std::string secret)
    : listener_(std::move(listener)), secret_(std::move(secret)) {}

std::string GreetingListener::DescribeDropped() const {
  if (dropped_ == 0) return "";
  return absl::StrCat("; ", dropped_, dropped_ == 1 ? " connection was" : " connections were",
                      " dropped, the last one from ", last_dropped_);
}

void GreetingListener::Refuse(const Caller& caller, const std::string& why,
                              GreetingKind kind) const {
  // Printable, since the proof covers what the other side will have read.
  const absl::StatusOr<std::string> refusal =
      FormatProven({.kind = kind, .text = ToPrintableLine(why).substr(0, kMostRefusalBytes)},
                   caller.greeting.nonce, secret_);
  if (refusal.ok()) (void)SendAll(caller.socket, *refusal, Instant::Now());
}

void GreetingListener::Drop(Caller& caller, const std::string& why) {
  Refuse(caller, why);
  HangUp(caller, why);
}

void GreetingListener::HangUp(Caller& caller, const std::string& why) {
  ++dropped_;
  last_dropped_ = absl::StrCat(caller.from.ToString(), ": ", why);
  caller.socket.Close();
}

void GreetingListener::DropExpired() {
  for (PendingCaller& pending : pending_) {
    if (pending.caller.socket.valid() && Instant::Now() > pending.deadline) {
      HangUp(pending.caller,
             pending.bytes.empty() ? "it said nothing" : "it stopped in mid-greeting");
    }
  }
  pending_.remove_if([](const PendingCaller& pending) { return !pending.caller.socket.valid(); });
}

absl::StatusOr<GreetingListener::Caller> GreetingListener::Next(GreetingKind kind,
                                                                Instant deadline) {
  while (true) {
    std::vector<pollfd> waiting = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const PendingCaller& pending : pending_) {
      waiting.push_back({.fd = pending.caller.socket.get(), .events = POLLIN, .revents = 0});
    }
    (void)poll(waiting.data(), waiting.size(), PollMilliseconds(deadline));
    size_t next = 1;
    for (auto pending = pending_.begin(); pending != pending_.end(); ++pending) {
      if (waiting[next++].revents == 0 || !ReadGreeting(*pending, kind)) continue;
      Caller caller = std::move(pending->caller);
      pending_.erase(pending);
      return caller;
    }
    DropExpired();
    absl::Status status;
    if (waiting[0].revents != 0) AcceptAll(&status);
    if (!status.ok()) return status;
    if (Instant::Now() >= deadline) return absl::DeadlineExceededError("nobody came");
  }
}

void GreetingListener::AcceptAll(absl::Status* status) {
  while (true) {
    absl::StatusOr<Descriptor> socket = AcceptFrom(listener_);
    const absl::StatusOr<Nonce> challenge = DrawNonce();
    *status = socket.ok() ? challenge.status() : socket.status();
    if (!status->ok() || !socket->valid()) return;
    const absl::StatusOr<Endpoint> from = RemoteEndpoint(*socket);
    const absl::StatusOr<Endpoint> at = LocalEndpoint(*socket);
    if (!from.ok() || !at.ok()) continue;  // gone again
    if (pending_.size() >= kMostPending) {
      HangUp(pending_.front().caller, "it said nothing while many others came");
      pending_.pop_front();
    }
    PendingCaller& pending = pending_.emplace_back();
    pending.caller.socket = *std::move(socket);
    pending.caller.from = *from;
    pending.caller.at = *at;
    pending.caller.challenge = *challenge;
    pending.deadline = Instant::Now() + kGreetingTimeout;
    const std::string greeting =
        FormatGreeting({.kind = GreetingKind::kChallenge, .nonce = *challenge});
    if (!SendAll(pending.caller.socket, greeting, Instant::Now()).ok()) {
      HangUp(pending.caller, "it hung up");
    }
  }
}

bool GreetingListener::ReadGreeting(PendingCaller& pending, GreetingKind kind) {
  // Not one byte too many: what follows the greeting is the transport's.
  const absl::Status received =
      ReceiveSome(pending.caller.socket, GreetingBytesMissing(pending.bytes), &pending.bytes,
                  Instant::InfinitePast());
  if (absl::IsDeadlineExceeded(received)) return false;
  if (!received.ok()) {
    HangUp(pending.caller, absl::StrCat("it hung up (", received.message(), ")"));
    return false;
  }
  size_t used = 0;
  absl::StatusOr<Greeting> greeting = ParseGreeting(pending.bytes, &used);
  if (greeting.ok() && used == 0) return false;
  std::string wrong(greeting.status().message());
  if (greeting.ok() && !IsProven(*greeting, pending.caller.challenge, secret_)) {
    wrong = absl::StrCat("rank ", greeting->rank, " has another secret (SLUICE_SECRET)");
  }
  if (!wrong.empty()) {
    // Without a proof: what a stranger is told must not be of use to him, who might pass it on.
    const std::string refusal = FormatGreeting({.kind = GreetingKind::kRefusal, .text = wrong});
    (void)SendAll(pending.caller.socket, refusal, Instant::Now());
    HangUp(pending.caller, wrong);
    return false;
  }
  pending.caller.greeting = *std::move(greeting);
  const absl::Status same =
      secret_.empty() ? CheckSameUser(pending.caller.socket) : absl::OkStatus();
  if (absl::IsUnavailable(same)) {
    HangUp(pending.caller, std::string(same.message()));
    return false;
  }
  if (!same.ok()) {
    Drop(pending.caller, std::string(same.message()));
    return false;
  }
  if (pending.caller.greeting.kind == kind) return true;
  Drop(pending.caller,
       kind == GreetingKind::kLink ? "the group is complete already" : "this is rank 0's port");
  return false;
}

}  // namespace sluice
