// One rank as a program: comm_rank tcp|mpi ROUNDS TIMEOUT_MS BYTES. Finds its rank in the
// environment, sends a message around a ring and gathers a number from all, round by round (for
// ever where ROUNDS is 0), and ends as a training program would: 0 when done, 5 when it lost
// somebody.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/open.h"

namespace sluice {
namespace {

struct Work {
  std::string transport;
  int rounds = 0;
  absl::Duration timeout;
  size_t bytes = 0;
};

std::atomic<bool> told_to_stop{false};

absl::StatusOr<std::unique_ptr<Communicator>> Open(const Work& work) {
  if (work.transport == "mpi") {
    std::signal(SIGTERM, [](int) { told_to_stop.store(true); });
    MpiOptions options;
    options.told_to_stop = &told_to_stop;
    return OpenMpi(options);
  }
  const absl::StatusOr<Launch> launch = FindLaunch({}, ProcessEnvironment());
  if (!launch.ok()) return launch.status();
  TcpOptions options;
  options.secret = ProcessEnvironment()("SLUICE_SECRET").value_or("");
  options.timeout = absl::Seconds(60);
  options.heartbeat = absl::Milliseconds(100);
  return OpenTcp(*launch, options);
}

absl::Status Round(Communicator& ranks, int round, const Work& work) {
  const int size = ranks.size();
  const int next = (ranks.rank() + 1) % size;
  const int before = (ranks.rank() + size - 1) % size;
  const std::vector<char> out(work.bytes, static_cast<char>(ranks.rank() + round));
  std::vector<char> in(work.bytes);
  Ticket sent = 0;
  Ticket received = 0;
  absl::Status status = ranks.PostReceive(before, in.data(), in.size(), &received);
  if (status.ok()) status = ranks.PostSend(next, out.data(), out.size(), &sent);
  if (status.ok()) status = ranks.WaitReceive(before, received, absl::Now() + work.timeout);
  if (status.ok()) status = ranks.WaitSend(next, sent, absl::Now() + work.timeout);
  std::vector<double> all(static_cast<size_t>(size));
  const double mine = round + ranks.rank();
  if (status.ok()) {
    status = ranks.AllGather({&mine, 1}, absl::MakeSpan(all), absl::Now() + work.timeout);
  }
  if (!status.ok()) {
    status = absl::Status(status.code(), absl::StrCat("rank ", ranks.rank(), ", round ", round,
                                                      ": ", status.message()));
    ranks.Abort(status);
    return status;
  }
  const bool right = in == std::vector<char>(work.bytes, static_cast<char>(before + round)) &&
                     all[static_cast<size_t>(before)] == round + before;
  return right ? absl::OkStatus() : absl::DataLossError("wrong bytes");
}

int Run(const Work& work) {
  absl::StatusOr<std::unique_ptr<Communicator>> opened = Open(work);
  absl::Status status = opened.status();
  if (status.ok()) {
    Communicator& ranks = **opened;
    std::printf("ready %d of %d, process %d\n", ranks.rank(), ranks.size(), getpid());
    std::fflush(stdout);
    for (int round = 0; status.ok() && (work.rounds == 0 || round < work.rounds); ++round) {
      status = Round(ranks, round, work);
    }
  }
  std::printf("%s\n", status.ok() ? "done" : status.ToString().c_str());
  std::fflush(stdout);
  if (status.ok()) return 0;
  constexpr int kBadInput = 2;
  constexpr int kPeerLost = 5;
  return absl::IsInvalidArgument(status) ? kBadInput : kPeerLost;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return sluice::Run({.transport = argv[1],
                      .rounds = std::atoi(argv[2]),
                      .timeout = absl::Milliseconds(std::atoi(argv[3])),
                      .bytes = static_cast<size_t>(std::atoll(argv[4]))});
}
