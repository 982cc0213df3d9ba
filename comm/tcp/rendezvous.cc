#include "comm/tcp/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_listener.h"
#include "comm/tcp/rendezvous_host.h"
#include "comm/tcp/rendezvous_join.h"
#include "comm/tcp/rendezvous_mesh.h"

namespace sluice {
namespace {

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
  const RendezvousContext context{launch, secret, timeout, deadline,
                                  launch.rank == 0 ? here->port : launch.port};
  GreetingListener greetings(std::move(listener), secret);
  const absl::StatusOr<RendezvousGroup> group =
      launch.rank == 0 ? GatherRanks(context, &greetings) : JoinRanks(context, here->port);
  if (!group.ok()) return group.status();
  return ConnectRanks(context, *group, &greetings);
}

}  // namespace sluice
