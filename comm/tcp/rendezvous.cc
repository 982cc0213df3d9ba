#include "comm/tcp/rendezvous.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "comm/tcp/greeting.h"
#include "comm/tcp/greeting_listener.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

// What all that follows needs to know.
struct Context {
  const Launch& launch;
  const std::string& secret;
  absl::Duration timeout;
  Instant deadline;
  int port;  // at which rank 0 listens

  size_t ranks() const { return static_cast<size_t>(launch.size); }
  std::string MeetingPlace() const { return absl::StrCat(launch.address, ":", port); }
};

// The ranks of the group and where they listen, as every rank knows it in the end.
struct Group {
  Nonce session{};
  std::vector<TableRow> table{};
  Endpoint rank_zero{};  // as this rank reached it
};

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

// Rank 0's side: one socket for each rank that has joined.
class Host {
 public:
  Host(const Context& context, GreetingListener* listener)
      : context_(context), listener_(listener), callers_(context.ranks()) {}

  absl::StatusOr<Group> Gather() {
    absl::Status status;
    for (size_t come = 1; status.ok() && come < context_.ranks();) {
      absl::StatusOr<GreetingListener::Caller> caller =
          listener_->Next(GreetingKind::kJoin, context_.deadline);
      if (!caller.ok()) {
        status = absl::IsDeadlineExceeded(caller.status()) ? Incomplete() : caller.status();
      } else if (status = Check(*caller); status.ok()) {
        std::optional<GreetingListener::Caller>& place = callers_[caller->greeting.rank];
        if (!place) ++come;
        place = *std::move(caller);
      }
    }
    absl::StatusOr<Group> group = status.ok() ? SendTables() : status;
    if (!group.ok()) RefuseAll(group.status());
    return group;
  }

 private:
  // A caller whose greeting is impossible makes the whole group fail: it knows the secret, so it is
  // a rank of this job that was started with wrong arguments.
  absl::Status Check(const GreetingListener::Caller& caller) {
    const Greeting& join = caller.greeting;
    std::string wrong;
    if (join.size != context_.ranks()) {
      wrong = absl::StrCat("world sizes differ: rank ", join.rank, " at ", caller.from.ToString(),
                           " was told ", join.size, ", rank 0 was told ", context_.ranks());
    } else if (join.rank == 0 || join.rank >= context_.ranks()) {
      wrong = absl::StrCat("two processes have rank ", join.rank, ": the other one is at ",
                           caller.from.ToString());
    } else if (callers_[join.rank] && !HasHungUp(callers_[join.rank]->socket)) {
      wrong =
          absl::StrCat("two processes have rank ", join.rank, ", at ",
                       callers_[join.rank]->from.ToString(), " and at ", caller.from.ToString());
    }
    if (wrong.empty()) return absl::OkStatus();
    Refuse(caller.socket, wrong);
    return absl::InvalidArgumentError(wrong);
  }

  static bool HasHungUp(const Descriptor& socket) {
    char byte = 0;
    return recv(socket.get(), &byte, 1, MSG_PEEK) == 0;
  }

  absl::Status Incomplete() const {
    std::vector<int> missing;
    for (size_t r = 1; r < callers_.size(); ++r) {
      if (!callers_[r]) missing.push_back(static_cast<int>(r));
    }
    return absl::DeadlineExceededError(
        absl::StrCat("rank 0 waited ", absl::FormatDuration(context_.timeout), " at port ",
                     context_.port, ", but ", RankList(missing), " of ", context_.ranks(),
                     " did not come", listener_->DescribeDropped()));
  }

  absl::StatusOr<Group> SendTables() {
    absl::StatusOr<Nonce> session = DrawNonce();
    if (!session.ok()) return session.status();
    Group group{.session = *session, .table = std::vector<TableRow>(context_.ranks())};
    group.table[0].port = static_cast<uint16_t>(context_.port);
    for (size_t r = 1; r < callers_.size(); ++r) {
      std::memcpy(group.table[r].address.data(), &callers_[r]->from.address, sizeof(in6_addr));
      group.table[r].port = callers_[r]->greeting.port;
    }
    const Greeting table{
        .kind = GreetingKind::kTable, .session = group.session, .table = group.table};
    for (size_t r = 1; r < callers_.size(); ++r) {
      const absl::StatusOr<std::string> bytes =
          FormatProven(table, callers_[r]->greeting.nonce, context_.secret);
      absl::Status status = bytes.status();
      if (status.ok()) status = SendAll(callers_[r]->socket, *bytes, context_.deadline);
      if (!status.ok()) {
        return absl::UnavailableError(
            absl::StrCat("rank ", r, " left while the others came (", status.message(), ")"));
      }
    }
    return group;
  }

  void RefuseAll(const absl::Status& status) {
    const bool started_wrongly = absl::IsInvalidArgument(status);
    const GreetingKind kind = started_wrongly ? GreetingKind::kRefusal : GreetingKind::kIncomplete;
    for (const std::optional<GreetingListener::Caller>& caller : callers_) {
      if (caller) Refuse(caller->socket, std::string(status.message()), kind);
    }
  }

  const Context& context_;
  GreetingListener* listener_;
  std::vector<std::optional<GreetingListener::Caller>> callers_;
};

// The side of all other ranks.
class Joiner {
 public:
  Joiner(const Context& context, int port) : context_(context), port_(port) {}

  absl::StatusOr<Group> Join() {
    const absl::StatusOr<Endpoint> host = Resolve(context_.launch.address, context_.port);
    if (!host.ok()) return host.status();
    Nonce challenge{};
    absl::StatusOr<Descriptor> socket = BeChallenged(*host, &challenge);
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
    return Understand(*std::move(answer), *mine, *host);
  }

 private:
  absl::Status AtHost(const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat("rank ", context_.launch.rank, " met rank 0 at ",
                                     context_.MeetingPlace(), ", but: ", status.message()));
  }

  // A host that hangs up before it speaks may be the last run's, still ending: another attempt.
  absl::StatusOr<Descriptor> BeChallenged(const Endpoint& host, Nonce* challenge) {
    while (true) {
      absl::StatusOr<Descriptor> socket = ConnectPatiently(host, context_.deadline);
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

  absl::StatusOr<Group> Understand(Greeting answer, const Nonce& mine, const Endpoint& host) {
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
    return Group{.session = answer.session, .table = std::move(answer.table), .rank_zero = host};
  }

  const Context& context_;
  const int port_;
};

// Connects each rank to each: a rank calls the ranks below it and is called by those above.
class Mesh {
 public:
  Mesh(const Context& context, const Group& group, GreetingListener* listener)
      : context_(context), group_(group), listener_(listener), links_(context.ranks()) {}

  absl::StatusOr<std::vector<TcpLink>> Connect() {
    absl::Status status;
    for (int peer = 0; status.ok() && peer < context_.launch.rank; ++peer) {
      for (const LinkUse use : {LinkUse::kControl, LinkUse::kData}) {
        status.Update(Call(peer, use));
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
  Descriptor& Place(int peer, LinkUse use) {
    TcpLink& link = links_[static_cast<size_t>(peer)];
    return use == LinkUse::kControl ? link.control : link.data;
  }

  Endpoint Where(int peer) const {
    const TableRow& row = group_.table[static_cast<size_t>(peer)];
    Endpoint where;
    std::memcpy(&where.address, row.address.data(), sizeof(in6_addr));
    where.port = row.port;
    // Rank 0 itself, and whoever reached it from its own machine, is where rank 0 is.
    if (peer == 0 || where.IsLoopback()) where.address = group_.rank_zero.address;
    return where;
  }

  absl::Status Call(int peer, LinkUse use) {
    absl::StatusOr<Descriptor> socket = ConnectTo(Where(peer), context_.deadline);
    absl::Status status = socket.status();
    if (status.ok()) status = Introduce(*socket, use);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("rank ", context_.launch.rank, " cannot reach rank ", peer,
                                       ": ", status.message()));
    }
    Place(peer, use) = *std::move(socket);
    return absl::OkStatus();
  }

  absl::Status Introduce(const Descriptor& socket, LinkUse use) {
    const absl::StatusOr<Greeting> challenge = ReceiveGreeting(socket, context_.deadline);
    if (!challenge.ok()) return challenge.status();
    const absl::StatusOr<std::string> link =
        FormatProven({.kind = GreetingKind::kLink,
                      .rank = static_cast<uint32_t>(context_.launch.rank),
                      .use = use,
                      .session = group_.session},
                     challenge->nonce, context_.secret);
    if (!link.ok()) return link.status();
    return SendAll(socket, *link, context_.deadline);
  }

  bool Accept(GreetingListener::Caller& caller) {
    const Greeting& link = caller.greeting;
    if (link.session != group_.session || link.rank >= context_.ranks() ||
        static_cast<int>(link.rank) <= context_.launch.rank) {
      return false;
    }
    Descriptor& place = Place(static_cast<int>(link.rank), link.use);
    if (place.valid()) return false;
    place = std::move(caller.socket);
    return true;
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

  const Context& context_;
  const Group& group_;
  GreetingListener* listener_;
  std::vector<TcpLink> links_;
};

absl::Status CheckLaunch(const Launch& launch, const std::string& secret) {
  if (launch.size > static_cast<int>(kMostRanksOfTcp)) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kMostRanksOfTcp, " ranks can meet over TCP, not ", launch.size));
  }
  if (launch.address.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(LaunchSourceName(launch.source),
                     " does not say where rank 0 is; give its machine with --master-addr"));
  }
  if (secret.empty() && !NamesLoopback(launch.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks that meet at ", launch.address,
                     " need a shared secret: set SLUICE_SECRET to the same text for all of them "
                     "(or pass --secret-file)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TcpLink>> MeetRanks(const Launch& launch, const std::string& secret,
                                               absl::Duration timeout, Descriptor listener) {
  if (launch.size == 1) return std::vector<TcpLink>(1);
  if (absl::Status status = CheckLaunch(launch, secret); !status.ok()) return status;
  const Instant deadline = Instant::Now() + timeout;
  if (!listener.valid()) {
    absl::StatusOr<Descriptor> opened =
        ListenOn(NamesLoopback(launch.address), launch.rank == 0 ? launch.port : 0);
    if (!opened.ok()) return opened.status();
    listener = *std::move(opened);
  }
  const absl::StatusOr<Endpoint> here = LocalEndpoint(listener);
  if (!here.ok()) return here.status();
  const Context context{launch, secret, timeout, deadline,
                        launch.rank == 0 ? here->port : launch.port};
  GreetingListener greetings(std::move(listener), secret);
  const absl::StatusOr<Group> group =
      launch.rank == 0 ? Host(context, &greetings).Gather() : Joiner(context, here->port).Join();
  if (!group.ok()) return group.status();
  return Mesh(context, *group, &greetings).Connect();
}

}  // namespace sluice
