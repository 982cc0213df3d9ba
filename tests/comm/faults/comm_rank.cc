// One rank as a program: comm_rank tcp|mpi ROUNDS TIMEOUT_MS BYTES. Finds its rank in the
// environment, sends a message around a ring and gathers a number from all, round after round (if
// ROUNDS is 0: until one of the ranks gets SIGUSR1), and exits like a training program: 0 when it
// is done, 5 when it lost a rank. After SIGUSR2 it prints a line once the next whole round is over.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comm/open.h"

namespace sluice {
namespace {

constexpr int kPeerLost = 5;

struct Work {
  std::string transport;
  int rounds = 0;
  absl::Duration timeout;
  size_t bytes = 0;
};

std::atomic<bool> told_to_stop{false};
std::atomic<bool> told_to_finish{false};
std::atomic<bool> told_to_speak{false};

absl::StatusOr<std::unique_ptr<Communicator>> Open(const Work& work, MpiProcess& mpi) {
  if (work.transport == "mpi") {
    std::signal(SIGTERM, [](int) { told_to_stop.store(true); });
    MpiOptions options;
    options.told_to_stop = &told_to_stop;
    return mpi.Open(options);
  }
  const absl::StatusOr<Launch> launch = FindLaunch({}, ProcessEnvironment());
  if (!launch.ok()) return launch.status();
  TcpOptions options;
  options.secret = ProcessEnvironment()("SLUICE_SECRET").value_or("");
  options.timeout = absl::Seconds(60);
  options.heartbeat = absl::Milliseconds(100);
  return OpenTcp(*launch, options);
}

// `last`: whether any rank has been told to finish.
absl::Status Round(Communicator& ranks, int round, const Work& work, bool* last) {
  const int size = ranks.size();
  const int next = (ranks.rank() + 1) % size;
  const int before = (ranks.rank() + size - 1) % size;
  const std::vector<char> out(work.bytes, static_cast<char>(ranks.rank() + round));
  std::vector<char> in(work.bytes);
  Ticket sent = 0;
  Ticket received = 0;
  absl::Status status = ranks.PostReceive(before, in.data(), in.size(), &received);
  if (status.ok()) status = ranks.PostSend(next, out.data(), out.size(), &sent);
  if (status.ok()) status = ranks.WaitReceive(before, received, Instant::Now() + work.timeout);
  if (status.ok()) status = ranks.WaitSend(next, sent, Instant::Now() + work.timeout);
  std::vector<double> all(2 * static_cast<size_t>(size));
  const double mine[] = {static_cast<double>(round + ranks.rank()),
                         told_to_finish.load() ? 1.0 : 0.0};
  if (status.ok()) {
    status = ranks.AllGather(mine, absl::MakeSpan(all), Instant::Now() + work.timeout);
  }
  if (!status.ok()) {
    status = absl::Status(status.code(), absl::StrCat("rank ", ranks.rank(), ", round ", round,
                                                      ": ", status.message()));
    ranks.Abort(status);
    return status;
  }
  const bool right = in == std::vector<char>(work.bytes, static_cast<char>(before + round)) &&
                     all[2 * static_cast<size_t>(before)] == round + before;
  for (size_t told = 1; told < all.size(); told += 2) *last = *last || all[told] != 0;
  return right ? absl::OkStatus() : absl::DataLossError("wrong bytes");
}

// Returns the exit code.
int Run(const Work& work, MpiProcess& mpi) {
  std::signal(SIGUSR1, [](int) { told_to_finish.store(true); });
  std::signal(SIGUSR2, [](int) { told_to_speak.store(true); });
  absl::StatusOr<std::unique_ptr<Communicator>> opened = Open(work, mpi);
  absl::Status status = opened.status();
  if (status.ok()) {
    Communicator& ranks = **opened;
    std::printf("ready %d of %d, process %d\n", ranks.rank(), ranks.size(), getpid());
    std::fflush(stdout);
    bool last = false;
    for (int round = 0; status.ok() && !last; ++round) {
      const bool speaks = told_to_speak.exchange(false);
      status = Round(ranks, round, work, &last);
      if (speaks && status.ok()) {
        std::printf("a whole round\n");
        std::fflush(stdout);
      }
      last = last || round + 1 == work.rounds;
    }
  }
  std::printf("%s\n", status.ok() ? "done" : status.ToString().c_str());
  std::fflush(stdout);
  if (status.ok()) return 0;
  constexpr int kBadInput = 2;
  return absl::IsInvalidArgument(status) ? kBadInput : kPeerLost;
}

// The exit code, if MPI allows the process to end normally.
int End(MpiProcess& mpi, int exit_code) {
  const MpiEnd end = mpi.Finalise();
  if (end == MpiEnd::kFinalised) return exit_code;
  // mpirun drops output that it has not read before the end of the process.
  absl::SleepFor(absl::Milliseconds(200));
  if (end == MpiEnd::kOthersWait) mpi.Abort(kPeerLost);
  _exit(kPeerLost);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  sluice::MpiProcess mpi;
  const int exit_code = sluice::Run({.transport = argv[1],
                                     .rounds = std::atoi(argv[2]),
                                     .timeout = absl::Milliseconds(std::atoi(argv[3])),
                                     .bytes = static_cast<size_t>(std::atoll(argv[4]))},
                                    mpi);
  return sluice::End(mpi, exit_code);
}
