#include "comm/tcp/rendezvous/rendezvous_mesh.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);

// Connects each rank to each: a rank calls the ranks below it and is called by those above.
class Mesh {
 public:
  Mesh(const RendezvousContext& context, const RendezvousGroup& group, GreetingListener* listener)
      : context_(context), group_(group), listener_(listener), links_(context.ranks()) {}

  absl::StatusOr<std::vector<TcpLink>> Connect() {
    absl::Status status;
    for (int peer = 0; status.ok() && peer < context_.launch.rank; ++peer) {
      for (const LinkUse use : {LinkUse::kControl, LinkUse::kData}) {
        if (status.ok()) status = Call(peer, use);
      }
    }
    const int above = context_.launch.size - 1 - context_.launch.rank;
    for (int calls = 0; status.ok() && calls < 2 * above;) {
      absl::StatusOr<GreetingListener::Caller> caller =
          listener_->Next(GreetingKind::kLink, context_.deadline);
      status = caller.ok() ? absl::OkStatus() : Incomplete(caller.status());
      if (caller.ok() && Accept(*caller)) ++calls;
    }
    if (!status.ok()) return status;
    return std::move(links_);
  }

 private:
  Connection& Place(int peer, LinkUse use) {
    TcpLink& link = links_[static_cast<size_t>(peer)];
    return use == LinkUse::kControl ? link.control : link.data;
  }

  Endpoint Where(int peer) const {
    Endpoint where = EndpointOf(group_.table[static_cast<size_t>(peer)]);
    // Rank 0 itself, and whoever reached it from its own machine, is where rank 0 is.
    if (peer == 0 || where.IsLoopback()) where.address = context_.host.address;
    if (IN6_IS_ADDR_LINKLOCAL(&where.address)) where.scope = context_.host.scope;
    return where;
  }

  // A peer that hangs up may have had too many visitors at a time: another attempt.
  absl::Status Call(int peer, LinkUse use) {
    AttemptPause pause;
    while (true) {
      absl::StatusOr<Descriptor> socket = ConnectTo(Where(peer), context_.deadline);
      bool again = false;
      absl::StatusOr<Connection> connection = socket.ok()
                                                  ? Introduce(*std::move(socket), peer, use, &again)
                                                  : absl::StatusOr<Connection>(socket.status());
      if (connection.ok()) {
        Place(peer, use) = *std::move(connection);
        return absl::OkStatus();
      }
      const absl::Status& status = connection.status();
      if (again && pause.Sleep(context_.deadline)) continue;
      return absl::Status(status.code(),
                          absl::StrCat("rank ", context_.launch.rank, " cannot reach rank ", peer,
                                       " at ", Where(peer).ToString(), ": ", status.message()));
    }
  }

  // Each side proves to the other one that it is this rank of this group.
  absl::StatusOr<Connection> Introduce(Descriptor socket, int peer, LinkUse use, bool* again) {
    const absl::StatusOr<Nonce> challenge = ReceiveChallenge(context_, socket);
    const absl::StatusOr<Nonce> mine = DrawNonce();
    if (!mine.ok()) return mine.status();
    *again = absl::IsUnavailable(challenge.status());
    if (!challenge.ok()) return challenge.status();
    const absl::StatusOr<std::string> link =
        FormatProven({.kind = GreetingKind::kLink,
                      .nonce = *mine,
                      .rank = static_cast<uint32_t>(context_.launch.rank),
                      .peer = static_cast<uint32_t>(peer),
                      .use = use,
                      .session = group_.session},
                     *challenge, context_.secret);
    if (!link.ok()) return link.status();
    const absl::Status sent = SendAll(socket, *link, context_.deadline);
    const absl::StatusOr<Answer> answer =
        sent.ok() ? ReceiveAnswer(context_, socket, *mine) : absl::StatusOr<Answer>(sent);
    *again = absl::IsUnavailable(answer.status()) ||
             (answer.ok() && answer->refuses() && !answer->proven);
    if (!answer.ok()) return answer.status();
    if (absl::Status status = CheckAnswer(*answer, peer); !status.ok()) return status;
    absl::StatusOr<Connection> connection =
        Protect(std::move(socket), Connection::Side::kCaller, *challenge, *mine, context_.deadline);
    *again = absl::IsUnavailable(connection.status());
    return connection;
  }

  // Both sides have proven themselves with these random numbers. What they say from now on is
  // encrypted, but for what stays on a loopback interface, which nobody else can read. Both sides of
  // a connection have a loopback address, or none has.
  absl::StatusOr<Connection> Protect(Descriptor socket, Connection::Side side,
                                     const Nonce& challenge, const Nonce& nonce,
                                     Instant deadline) const {
    const absl::StatusOr<Endpoint> here = LocalEndpoint(socket);
    if (!here.ok()) return here.status();
    if (here->IsLoopback()) return Connection(std::move(socket));
    const absl::StatusOr<Connection::Key> key =
        DeriveKey(group_.session, challenge, nonce, context_.secret);
    if (!key.ok()) return key.status();
    return Connection::Encrypt(std::move(socket), side, *key, deadline);
  }

  absl::Status CheckAnswer(const Answer& answer, int peer) const {
    const Greeting& linked = answer.greeting;
    if (answer.refuses()) return absl::InvalidArgumentError(linked.text);
    if (linked.kind == GreetingKind::kLinked && answer.proven && linked.session == group_.session &&
        linked.rank == static_cast<uint32_t>(peer)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("what answers there does not prove that it is that rank");
  }

  // Whether the caller fills a place that was empty.
  bool Accept(GreetingListener::Caller& caller) {
    const Greeting& link = caller.greeting;
    if (link.session != group_.session || link.rank >= context_.ranks() ||
        static_cast<int>(link.rank) <= context_.launch.rank ||
        static_cast<int>(link.peer) != context_.launch.rank) {
      listener_->Drop(caller,
                      absl::StrCat("this is rank ", context_.launch.rank, " of another group"));
      return false;
    }
    const absl::StatusOr<std::string> linked =
        FormatProven({.kind = GreetingKind::kLinked,
                      .rank = static_cast<uint32_t>(context_.launch.rank),
                      .session = group_.session},
                     link.nonce, context_.secret);
    if (!linked.ok() || !SendAll(caller.socket, *linked, Instant::Now()).ok()) return false;
    // No rank waits here for another one for long.
    const Instant deadline = std::min(context_.deadline, Instant::Now() + kHandshakeTimeout);
    absl::StatusOr<Connection> connection =
        Protect(std::move(caller.socket), Connection::Side::kAccepted, caller.challenge, link.nonce,
                deadline);
    if (!connection.ok()) {
      listener_->HangUp(caller, std::string(connection.status().message()));
      return false;
    }
    // A rank that calls again has not heard of its first call's success.
    Connection& place = Place(static_cast<int>(link.rank), link.use);
    const bool was_empty = !place.valid();
    place = *std::move(connection);
    return was_empty;
  }

  absl::Status Incomplete(const absl::Status& status) {
    if (!absl::IsDeadlineExceeded(status)) return status;
    std::vector<int> missing;
    for (int peer = context_.launch.rank + 1; peer < context_.launch.size; ++peer) {
      if (!Place(peer, LinkUse::kControl).valid() || !Place(peer, LinkUse::kData).valid()) {
        missing.push_back(peer);
      }
    }
    return absl::DeadlineExceededError(absl::StrCat("rank ", context_.launch.rank, ": ",
                                                    RankList(missing), " did not connect in time",
                                                    listener_->DescribeDropped()));
  }

  const RendezvousContext& context_;
  const RendezvousGroup& group_;
  GreetingListener* listener_;
  std::vector<TcpLink> links_;
};

}  // namespace

absl::StatusOr<std::vector<TcpLink>> ConnectRanks(const RendezvousContext& context,
                                                  const RendezvousGroup& group,
                                                  GreetingListener* listener) {
  return Mesh(context, group, listener).Connect();
}

}  // namespace sluice
