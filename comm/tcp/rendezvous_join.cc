#include "comm/tcp/rendezvous_join.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

// The side of all other ranks.
class Joiner {
 public:
  Joiner(const RendezvousContext& context, int port) : context_(context), port_(port) {}

  absl::StatusOr<RendezvousGroup> Join() {
    Nonce challenge{};
    absl::StatusOr<Descriptor> socket = BeChallenged(&challenge);
    if (!socket.ok()) return socket.status();
    const absl::StatusOr<Nonce> mine = DrawNonce();
    if (!mine.ok()) return mine.status();
    const absl::StatusOr<std::string> join =
        FormatProven({.kind = GreetingKind::kJoin,
                      .nonce = *mine,
                      .rank = static_cast<uint32_t>(context_.launch.rank),
                      .size = static_cast<uint32_t>(context_.launch.size),
                      .port = static_cast<uint16_t>(port_)},
                     challenge, context_.secret);
    if (!join.ok()) return join.status();
    if (absl::Status sent = SendAll(*socket, *join, context_.deadline); !sent.ok()) {
      return AtHost(sent);
    }
    absl::StatusOr<Greeting> answer = ReceiveGreeting(*socket, context_.deadline);
    if (!answer.ok()) return AtHost(answer.status());
    return Understand(*std::move(answer), *mine);
  }

 private:
  absl::Status AtHost(const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat("rank ", context_.launch.rank, " met rank 0 at ",
                                     context_.MeetingPlace(), ", but: ", status.message()));
  }

  // A host that hangs up before it speaks may be the last run's, still ending: another attempt.
  absl::StatusOr<Descriptor> BeChallenged(Nonce* challenge) {
    while (true) {
      absl::StatusOr<Descriptor> socket = ConnectPatiently(context_.host, context_.deadline);
      if (!socket.ok()) {
        return absl::DeadlineExceededError(absl::StrCat(
            "rank ", context_.launch.rank, " tried for ", absl::FormatDuration(context_.timeout),
            " to reach rank 0 at ", context_.MeetingPlace(), ": ", socket.status().message()));
      }
      absl::StatusOr<Greeting> greeting = ReceiveGreeting(*socket, context_.deadline);
      if (greeting.ok() && greeting->kind == GreetingKind::kChallenge) {
        *challenge = greeting->nonce;
        return socket;
      }
      const bool hung_up = absl::IsUnavailable(greeting.status());
      if (!hung_up || Instant::Now() >= context_.deadline) return NotRankZero(greeting.status());
      absl::SleepFor(absl::Milliseconds(50));
    }
  }

  absl::Status NotRankZero(const absl::Status& status) const {
    if (absl::IsFailedPrecondition(status)) return AtHost(status);
    return absl::InvalidArgumentError(
        absl::StrCat("what listens at ", context_.MeetingPlace(), " is not rank 0 of sluice (",
                     status.ok() ? "it speaks out of turn" : status.message(),
                     "); choose another port (--master-port)"));
  }

  absl::StatusOr<RendezvousGroup> Understand(Greeting answer, const Nonce& mine) {
    if (answer.kind == GreetingKind::kRefusal) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank 0 refuses rank ", context_.launch.rank, ": ", answer.text));
    }
    if (answer.kind == GreetingKind::kIncomplete) return absl::DeadlineExceededError(answer.text);
    if (answer.kind != GreetingKind::kTable || answer.table.size() != context_.ranks()) {
      return NotRankZero(absl::OkStatus());
    }
    if (!IsProven(answer, mine, context_.secret)) {
      return absl::InvalidArgumentError(absl::StrCat("rank 0 at ", context_.MeetingPlace(),
                                                     " does not know the secret (SLUICE_SECRET)"));
    }
    return RendezvousGroup{.session = answer.session, .table = std::move(answer.table)};
  }

  const RendezvousContext& context_;
  const int port_;
};

}  // namespace

absl::StatusOr<RendezvousGroup> JoinRanks(const RendezvousContext& context, int port) {
  return Joiner(context, port).Join();
}

}  // namespace sluice
