// nccl_bench [--row]: NCCL between two ranks, in the columns of bench/comm/transports: half the
// round trip of 8 bytes, and GB/s of long messages, four under way at a time, both by the GPU's
// clock. With two GPUs each rank has its own; with one GPU they share it, and connect like two
// machines, over loopback sockets. --row: without the line of headings. Skips with one line where
// there is no GPU or no NCCL.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/nccl.h"
#include "comm/nccl/nccl_memory.h"
#include "comm/open.h"
#include "models/device/cuda_device.h"

namespace sluice {
namespace {

constexpr int kRounds = 200;
constexpr int kRepetitions = 7;
constexpr int kWindow = 4;
constexpr size_t kBytesARepetition = size_t{256} << 20;
constexpr std::array<size_t, 3> kSizes = {64 << 10, 1 << 20, 16 << 20};
constexpr size_t kWord = 8;
constexpr absl::Duration kTimeout = absl::Seconds(60);

[[noreturn]] void Stop(const absl::Status& status) {
  fmt::print(stderr, "nccl_bench: {}\n", std::string(status.message()));
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Stop(status);
}

template <class T>
T OrStop(absl::StatusOr<T> value) {
  if (!value.ok()) Stop(value.status());
  return *std::move(value);
}

Instant Soon() { return Instant::Now() + kTimeout; }

// One of the two ranks.
class Rank {
 public:
  Rank(Communicator* host, NcclApi* nccl, int ordinal)
      : memory_(nccl),
        device_(OrStop(OpenCudaDevice(ordinal, {.allocator = memory_.Allocator()}))),
        stream_(OrStop(device_->NewStream())),
        begin_(OrStop(device_->NewEvent())),
        end_(OrStop(device_->NewEvent())),
        data_(OrStop(device_->Allocate(kWindow * static_cast<int64_t>(kSizes.back())))),
        tensors_(OrStop(ConnectNccl(
            {.nccl = nccl, .ordinal = ordinal, .edges = {{0, 1}, {1, 0}}, .timeout = kTimeout},
            host, device_.get(), stream_))),
        peer_(1 - host->rank()) {
    Check(memory_.RegisterWith(tensors_.get()));
  }

  // The median time of one word from rank to rank, in seconds.
  double Latency() {
    const double seconds = Median([this] {
      for (int i = 0; i < kRounds; ++i) PingPong();
    });
    return seconds / (2 * kRounds);
  }

  // The bandwidth of messages from rank 0 to rank 1, in bytes per second.
  double Bandwidth(size_t bytes) {
    const double seconds = Median([this, bytes] {
      MoveMany(bytes, static_cast<int>(kBytesARepetition / bytes));
      PingPong();  // so that rank 0 knows that everything has arrived
    });
    return static_cast<double>(kBytesARepetition) / seconds;
  }

 private:
  bool first() const { return peer_ == 1; }

  template <class Work>
  double Median(const Work& work) {
    std::vector<double> seconds;
    for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
      Check(tensors_->Barrier(Soon()));
      device_->Record(begin_, stream_);
      work();
      device_->Record(end_, stream_);
      Check(device_->Synchronize(stream_, Soon()));
      Check(tensors_->failure());
      if (repetition > 0) seconds.push_back(absl::ToDoubleSeconds(device_->Elapsed(begin_, end_)));
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRepetitions / 2, seconds.end());
    return seconds[kRepetitions / 2];
  }

  Ticket Post(bool send, int slot, size_t bytes) {
    Ticket ticket = 0;
    void* data = data_.data() + static_cast<size_t>(slot) * bytes;
    Check(send ? tensors_->PostSend(peer_, data, bytes, &ticket)
               : tensors_->PostReceive(peer_, data, bytes, &ticket));
    return ticket;
  }
  void Await(bool send, Ticket ticket) {
    Check(send ? tensors_->WaitSend(peer_, ticket, Soon())
               : tensors_->WaitReceive(peer_, ticket, Soon()));
  }

  void PingPong() {
    const Ticket received = Post(false, 1, kWord);
    if (!first()) Await(false, received);
    const Ticket sent = Post(true, 0, kWord);
    if (first()) Await(false, received);
    Await(true, sent);
  }

  void MoveMany(size_t bytes, int messages) {
    std::array<Ticket, kWindow> tickets = {};
    for (int i = 0; i < messages + kWindow; ++i) {
      const int slot = i % kWindow;
      Ticket& ticket = tickets[static_cast<size_t>(slot)];
      if (i >= kWindow) Await(first(), ticket);
      if (i < messages) ticket = Post(first(), slot, bytes);
    }
  }

  NcclMemory memory_;  // must outlive everything that uses its memory
  const std::unique_ptr<Device> device_;
  const Stream stream_;
  const Event begin_, end_;
  const DeviceMemory data_;
  const std::unique_ptr<NcclCommunicator> tensors_;
  const int peer_;
};

// A rank's process: nccl_bench NAME RANK PORT GPU.
int RunRank(const std::string& name, int rank, int port, int ordinal) {
  PrepareEnvironmentForNccl();
  Launch launch;
  launch.rank = rank;
  launch.size = 2;
  launch.address = "127.0.0.1";
  launch.port = port;
  const std::unique_ptr<Communicator> host = OrStop(OpenTcp(launch, {.timeout = kTimeout}));
  Rank end(host.get(), OrStop(LoadNccl()), ordinal);
  std::string line = fmt::format("{:<11} {:>10.2f}", name, end.Latency() * 1e6);
  for (const size_t bytes : kSizes) line += fmt::format(" {:>10.2f}", end.Bandwidth(bytes) / 1e9);
  if (rank == 0) fmt::print("{}\n", line);
  return 0;
}

// NCCL treats ranks that share a GPU as two machines.
void ShareTheGpu(int rank) {
  setenv("NCCL_HOSTID", fmt::format("nccl-bench-{}", rank).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_IB_DISABLE", "1", 1);
}

pid_t Start(const std::string& name, int rank, int port, int ordinal) {
  std::array<std::string, 5> words = {"nccl_bench", name, std::to_string(rank),
                                      std::to_string(port), std::to_string(ordinal)};
  std::array<char*, 6> arguments = {};
  for (size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
    Stop(absl::InternalError("cannot start a process"));
  return child;
}

int RunBoth(bool headings) {
  const int gpus = CudaDeviceCount();
  const absl::Status nccl = LoadNccl().status();
  if (gpus == 0 || !nccl.ok()) {
    fmt::print("nccl_bench: skipped: {}\n",
               gpus == 0 ? "there is no GPU" : std::string(nccl.message()));
    return 0;
  }
  if (headings) {
    fmt::print("{:<11} {:>10} {:>10} {:>10} {:>10}\n", "transport", "8 B, us", "64KiB", "1MiB",
               "16MiB");
    std::fflush(stdout);
  }
  const int port = LocalEndpoint(OrStop(ListenOn(Endpoint::Loopback(0))))->port;  // free again now
  std::array<pid_t, 2> children = {};
  for (int rank = 0; rank < 2; ++rank) {
    if (gpus == 1) ShareTheGpu(rank);
    children[static_cast<size_t>(rank)] =
        Start(gpus == 1 ? "NCCL, 1 GPU" : "NCCL", rank, port, gpus == 1 ? 0 : rank);
  }
  bool ok = true;
  for (const pid_t child : children) {
    int status = 0;
    ok = waitpid(child, &status, 0) == child && status == 0 && ok;
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc == 5)
    return sluice::RunRank(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  const bool row = argc == 2 && std::string(argv[1]) == "--row";
  if (argc > 1 && !row) {
    fmt::print(stderr, "usage: nccl_bench [--row]\n");
    return 2;
  }
  return sluice::RunBoth(!row);
}
