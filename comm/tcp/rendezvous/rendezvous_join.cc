#include "comm/tcp/rendezvous/rendezvous_join.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

// The side of all other ranks.
class Joiner {
 public:
  Joiner(const RendezvousContext& context, int port) : context_(context), port_(port) {}

  // Another attempt after one that is nobody's fault: rank 0 hangs up on the oldest of too many
  // visitors that have proven nothing yet, and whoever listens there for a moment may be the last
  // run's, still ending, or a stranger.
  absl::StatusOr<RendezvousGroup> Join() {
    AttemptPause pause;
    while (true) {
      again_ = false;
      absl::StatusOr<RendezvousGroup> group = Attempt();
      if (!again_) return group;
      if (!pause.Sleep(context_.deadline)) return OutOfTime(group.status());
    }
  }

 private:
  absl::StatusOr<RendezvousGroup> Attempt() {
    const absl::StatusOr<Descriptor> socket = ConnectPatiently(context_.host, context_.deadline);
    if (!socket.ok()) {
      return OutOfTime(absl::DeadlineExceededError(absl::StrCat(
          "rank ", context_.launch.rank, " tried for ", absl::FormatDuration(context_.timeout),
          " to reach rank 0 at ", context_.MeetingPlace(), ": ", socket.status().message())));
    }
    const absl::StatusOr<Nonce> challenge = ReceiveChallenge(context_, *socket);
    if (!challenge.ok()) {
      again_ = absl::IsUnavailable(challenge.status());
      return NotRankZero(challenge.status());
    }
    const absl::StatusOr<Greeting> join = Introduction(*socket);
    if (!join.ok()) return AtHost(join.status());
    const absl::StatusOr<std::string> bytes = FormatProven(*join, *challenge, context_.secret);
    if (!bytes.ok()) return bytes.status();
    const absl::Status sent = SendAll(*socket, *bytes, context_.deadline);
    absl::StatusOr<Answer> answer =
        sent.ok() ? ReceiveAnswer(context_, *socket, join->nonce) : absl::StatusOr<Answer>(sent);
    if (answer.ok()) return Understand(*std::move(answer));
    again_ = absl::IsUnavailable(answer.status());
    return AtHost(answer.status());
  }

  absl::StatusOr<Greeting> Introduction(const Descriptor& socket) const {
    const absl::StatusOr<Nonce> nonce = DrawNonce();
    if (!nonce.ok()) return nonce.status();
    absl::StatusOr<Endpoint> here = LocalEndpoint(socket);
    if (!here.ok()) return here.status();
    here->port = port_;
    return Greeting{.kind = GreetingKind::kJoin,
                    .nonce = *nonce,
                    .rank = static_cast<uint32_t>(context_.launch.rank),
                    .size = static_cast<uint32_t>(context_.launch.size),
                    .listens = RowOf(*here),
                    .reached = RowOf(context_.host)};
  }

  absl::Status AtHost(const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat("rank ", context_.launch.rank, " met rank 0 at ",
                                     context_.MeetingPlace(), ", but: ", status.message()));
  }

  absl::Status NotRankZero(const absl::Status& status) const {
    if (absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status)) {
      return AtHost(status);
    }
    // Nothing was said that is not rank 0's, and the system accepts connections for a process that
    // stands still.
    if (absl::IsDeadlineExceeded(status)) {
      return OutOfTime(absl::DeadlineExceededError(absl::StrCat(
          "rank ", context_.launch.rank, " reached ", context_.MeetingPlace(),
          ", where connections are accepted, but was not answered within ",
          absl::FormatDuration(context_.timeout),
          ": rank 0 is stopped or hangs, or another program listens there (then choose another ",
          "port, --master-port)")));
    }
    return absl::InvalidArgumentError(absl::StrCat("what listens at ", context_.MeetingPlace(),
                                                   " is not rank 0 of sluice (", status.message(),
                                                   "); choose another port (--master-port)"));
  }

  // What no attempt could get beyond: a refusal, though it was not proven, says more than silence.
  absl::Status OutOfTime(const absl::Status& status) const {
    return refused_.ok() ? status : refused_;
  }

  absl::StatusOr<RendezvousGroup> Understand(Answer answer) {
    Greeting& greeting = answer.greeting;
    if (answer.refuses() && !answer.proven) {
      refused_ = absl::InvalidArgumentError(absl::StrCat(
          "rank ", context_.launch.rank, " was refused at ", context_.MeetingPlace(),
          ", where nobody proved to know the secret (SLUICE_SECRET): ", greeting.text));
      again_ = true;
      return refused_;
    }
    if (greeting.kind == GreetingKind::kRefusal) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank 0 refuses rank ", context_.launch.rank, ": ", greeting.text));
    }
    if (greeting.kind == GreetingKind::kIncomplete) {
      return absl::DeadlineExceededError(greeting.text);
    }
    if (greeting.kind != GreetingKind::kTable || greeting.table.size() != context_.ranks()) {
      return NotRankZero(absl::InvalidArgumentError("it speaks out of turn"));
    }
    if (!answer.proven) {
      return absl::InvalidArgumentError(absl::StrCat("rank 0 at ", context_.MeetingPlace(),
                                                     " does not know the secret (SLUICE_SECRET)"));
    }
    return RendezvousGroup{.session = greeting.session, .table = std::move(greeting.table)};
  }

  const RendezvousContext& context_;
  const int port_;
  bool again_ = false;    // what the attempt has ended with is no reason to give up
  absl::Status refused_;  // the last refusal without a proof
};

}  // namespace

absl::StatusOr<RendezvousGroup> JoinRanks(const RendezvousContext& context, int port) {
  return Joiner(context, port).Join();
}

}  // namespace sluice
