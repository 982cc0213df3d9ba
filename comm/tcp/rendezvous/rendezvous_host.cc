#include "comm/tcp/rendezvous/rendezvous_host.h"

#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

// Rank 0's side: one socket for each rank that has joined.
class Host {
 public:
  Host(const RendezvousContext& context, GreetingListener* listener)
      : context_(context), listener_(listener), callers_(context.ranks()) {}

  absl::StatusOr<RendezvousGroup> Gather() {
    absl::Status status;
    for (size_t come = 1; status.ok() && come < context_.ranks();) {
      absl::StatusOr<GreetingListener::Caller> caller =
          listener_->Next(GreetingKind::kJoin, context_.deadline);
      if (!caller.ok()) {
        status = absl::IsDeadlineExceeded(caller.status()) ? Incomplete() : caller.status();
      } else if (const std::string relayed = Relayed(*caller); !relayed.empty()) {
        listener_->Drop(*caller, relayed);
      } else if (status = Check(*caller); status.ok()) {
        std::optional<GreetingListener::Caller>& place = callers_[caller->greeting.rank];
        if (!place) ++come;
        place = *std::move(caller);
      }
    }
    absl::StatusOr<RendezvousGroup> group = status.ok() ? SendTables() : status;
    if (!group.ok()) RefuseAll(group.status());
    return group;
  }

 private:
  // Why a caller is not let in that has reached another address than this one. What passes its
  // greeting on need not know the secret, and would see and change all that follows.
  static std::string Relayed(const GreetingListener::Caller& caller) {
    const TableRow& reached = caller.greeting.reached;
    if (reached == RowOf(caller.at)) return "";
    return absl::StrCat("rank ", caller.greeting.rank, " has reached ",
                        EndpointOf(reached).ToString(), ", but came in at ", caller.at.ToString(),
                        ": something between them passes connections on; give an address of rank "
                        "0's own machine (--master-addr)");
  }

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
    listener_->Refuse(caller, wrong);
    return absl::InvalidArgumentError(wrong);
  }

  static bool HasHungUp(const Descriptor& socket) {
    char byte = 0;
    const ssize_t bytes = recv(socket.get(), &byte, 1, MSG_PEEK);
    return bytes == 0 || (bytes < 0 && errno != EAGAIN && errno != EINTR);
  }

  // Why others may not have found this rank, where it can tell: "; 10.1.2.3 is no address of ...".
  std::string Unreachable() const {
    const std::string& address = context_.launch.address;
    const absl::StatusOr<Endpoint> host = Resolve(address, context_.host.port);
    if (!host.ok()) {
      return absl::StrCat("; rank 0 ", host.status().message(),
                          ": is that its own name (--master-addr)?");
    }
    if (!IsElsewhere(*host)) return "";
    return absl::StrCat("; ", address,
                        " is no address of this machine, where rank 0 is: give one that is "
                        "(--master-addr)");
  }

  absl::Status Incomplete() const {
    std::vector<int> missing;
    for (size_t r = 1; r < callers_.size(); ++r) {
      if (!callers_[r]) missing.push_back(static_cast<int>(r));
    }
    return absl::DeadlineExceededError(
        absl::StrCat("rank 0 waited ", absl::FormatDuration(context_.timeout), " at port ",
                     context_.host.port, ", but ", RankList(missing), " of ", context_.ranks(),
                     " did not come", listener_->DescribeDropped(), Unreachable()));
  }

  absl::StatusOr<RendezvousGroup> SendTables() {
    absl::StatusOr<Nonce> session = DrawNonce();
    if (!session.ok()) return session.status();
    RendezvousGroup group{.session = *session, .table = std::vector<TableRow>(context_.ranks())};
    group.table[0].port = static_cast<uint16_t>(context_.host.port);
    for (size_t r = 1; r < callers_.size(); ++r) {
      group.table[r] = callers_[r]->greeting.listens;
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
      if (caller) listener_->Refuse(*caller, std::string(status.message()), kind);
    }
  }

  const RendezvousContext& context_;
  GreetingListener* listener_;
  std::vector<std::optional<GreetingListener::Caller>> callers_;
};

}  // namespace

absl::StatusOr<RendezvousGroup> GatherRanks(const RendezvousContext& context,
                                            GreetingListener* listener) {
  return Host(context, listener).Gather();
}

}  // namespace sluice
