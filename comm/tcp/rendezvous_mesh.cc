#include "comm/tcp/rendezvous_mesh.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_proof.h"

namespace sluice {
namespace {

// Connects each rank to each: a rank calls the ranks below it and is called by those above.
class Mesh {
 public:
  Mesh(const RendezvousContext& context, const RendezvousGroup& group, GreetingListener* listener)
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
    if (peer == 0 || where.IsLoopback()) where.address = context_.host.address;
    if (IN6_IS_ADDR_LINKLOCAL(&where.address)) where.scope = context_.host.scope;
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
