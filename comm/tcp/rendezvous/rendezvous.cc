#include "comm/tcp/rendezvous/rendezvous.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/tcp/greeting_listener.h"
#include "comm/tcp/rendezvous/rendezvous_host.h"
#include "comm/tcp/rendezvous/rendezvous_join.h"
#include "comm/tcp/rendezvous/rendezvous_mesh.h"

namespace sluice {
namespace {

absl::Status CheckLaunch(const Launch& launch) {
  if (launch.size > static_cast<int>(kMostRanksOfTcp)) {
    return absl::InvalidArgumentError(
        absl::StrCat("at most ", kMostRanksOfTcp, " ranks can meet over TCP, not ", launch.size));
  }
  if (launch.address.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(LaunchSourceName(launch.source),
                     " does not say where rank 0 is; give its machine with --master-addr"));
  }
  return absl::OkStatus();
}

// Rank 0's machine, as this rank reaches it.
absl::StatusOr<Endpoint> FindHost(const Launch& launch, const std::string& secret) {
  absl::StatusOr<Endpoint> host = Resolve(launch.address, launch.port);
  if (host.ok() && host->IsUnspecified()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--master-addr ", launch.address,
                     " is the address of no machine; give the name or an address of rank 0's "
                     "machine"));
  }
  // Rank 0 itself needs no address of its own, and may be started before its name is known.
  if (!host.ok() && launch.rank == 0 && !secret.empty()) host = Endpoint::AnyIpv6(launch.port);
  if (!host.ok()) return host;
  if (secret.empty() && !host->IsLoopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks that meet at ", launch.address,
                     " need a shared secret: set SLUICE_SECRET to the same text for all of them "
                     "(or pass --secret-file)"));
  }
  if (secret.size() < kLeastSecretBytes && !host->IsLoopback()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the secret (SLUICE_SECRET or --secret-file) has ", secret.size(),
                     " bytes; ranks that meet at ", launch.address, " need at least ",
                     kLeastSecretBytes, ", drawn at random: make one with 'openssl rand -hex 32'"));
  }
  return host;
}

// Listens where other ranks may come from: on one machine only at the loopback address at which
// rank 0 is.
absl::StatusOr<Descriptor> Listen(const Launch& launch, const std::string& secret,
                                  const Endpoint& host) {
  const int port = launch.rank == 0 ? launch.port : 0;
  const bool others_may_come = !secret.empty() && NamesThisMachine(launch.address);
  if (!host.IsLoopback() || others_may_come) return ListenOn(Endpoint::AnyIpv6(port));
  return ListenOn({.address = host.address, .port = port});
}

}  // namespace

absl::StatusOr<std::vector<TcpLink>> MeetRanks(const Launch& launch, const std::string& secret,
                                               absl::Duration timeout, Descriptor listener) {
  if (launch.size == 1) return std::vector<TcpLink>(1);
  if (absl::Status status = CheckLaunch(launch); !status.ok()) return status;
  const Instant deadline = Instant::Now() + timeout;
  absl::StatusOr<Endpoint> host = FindHost(launch, secret);
  if (!host.ok()) return host.status();
  if (!listener.valid()) {
    absl::StatusOr<Descriptor> opened = Listen(launch, secret, *host);
    if (!opened.ok()) return opened.status();
    listener = *std::move(opened);
  }
  const absl::StatusOr<Endpoint> here = LocalEndpoint(listener);
  if (!here.ok()) return here.status();
  if (launch.rank == 0) host->port = here->port;
  const RendezvousContext context{launch, secret, timeout, deadline, *host};
  GreetingListener greetings(std::move(listener), secret);
  const absl::StatusOr<RendezvousGroup> group =
      launch.rank == 0 ? GatherRanks(context, &greetings) : JoinRanks(context, here->port);
  if (!group.ok()) return group.status();
  return ConnectRanks(context, *group, &greetings);
}

}  // namespace sluice
