// transports_bench memcpy|sockets|inprocess|tcp|mpi: one line of the table that
// bench/comm/transports prints. Between two ranks: half the round trip of 8 bytes, and GB/s of long
// messages, four under way at a time. "memcpy" and "sockets" are references: a copy from memory to
// memory, and a plain blocking pair of TCP sockets between two threads, one of which receives.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/local/in_process.h"
#include "comm/open.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {
namespace {

constexpr int kRounds = 3000;
constexpr int kRepetitions = 7;
constexpr int kWindow = 4;
constexpr size_t kBytesARepetition = size_t{256} << 20;
constexpr size_t kSizes[] = {64 << 10, 1 << 20, 16 << 20};

using Clock = std::chrono::steady_clock;
double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "transports_bench: {}\n", std::string(status.message()));
  std::exit(1);
}

struct Row {
  double latency = 0;             // seconds
  std::vector<double> bandwidth;  // bytes per second, by size
};

void Print(const std::string& name, const Row& row) {
  fmt::print("{:<11} {:>10.2f}", name, row.latency * 1e6);
  for (const double bandwidth : row.bandwidth) fmt::print(" {:>10.2f}", bandwidth / 1e9);
  fmt::print("\n");
}

Instant Soon() { return Instant::Now() + absl::Seconds(60); }

void PingPong(Communicator& ranks, char* out, char* in) {
  const int peer = 1 - ranks.rank();
  const bool first = ranks.rank() == 0;
  Ticket sent = 0;
  Ticket received = 0;
  constexpr size_t kBytes = 8;
  Check(ranks.PostReceive(peer, in, kBytes, &received));
  if (first) Check(ranks.PostSend(peer, out, kBytes, &sent));
  Check(ranks.WaitReceive(peer, received, Soon()));
  if (!first) Check(ranks.PostSend(peer, out, kBytes, &sent));
  Check(ranks.WaitSend(peer, sent, Soon()));
}

// From rank 0 to rank 1, and one word back when everything has arrived.
void Stream(Communicator& ranks, char* data, size_t bytes, int messages) {
  const bool sends = ranks.rank() == 0;
  const int peer = 1 - ranks.rank();
  Ticket tickets[kWindow] = {};
  for (int i = 0; i < messages + kWindow; ++i) {
    Ticket& ticket = tickets[i % kWindow];
    if (i >= kWindow) {
      Check(sends ? ranks.WaitSend(peer, ticket, Soon()) : ranks.WaitReceive(peer, ticket, Soon()));
    }
    char* place = data + bytes * static_cast<size_t>(i % kWindow);
    if (i < messages) {
      Check(sends ? ranks.PostSend(peer, place, bytes, &ticket)
                  : ranks.PostReceive(peer, place, bytes, &ticket));
    }
  }
  Check(ranks.Barrier(Soon()));
}

Row Measure(Communicator& ranks) {
  std::vector<char> data(kWindow * kSizes[2], 1);
  Row row;
  std::vector<double> times;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    Check(ranks.Barrier(Soon()));
    const auto start = Clock::now();
    for (int i = 0; i < kRounds; ++i) PingPong(ranks, data.data(), data.data() + 64);
    if (repetition > 0) times.push_back(Since(start) / (2 * kRounds));
  }
  row.latency = Median(times);
  for (const size_t bytes : kSizes) {
    times.clear();
    const auto messages = static_cast<int>(kBytesARepetition / bytes);
    for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
      Check(ranks.Barrier(Soon()));
      const auto start = Clock::now();
      Stream(ranks, data.data(), bytes, messages);
      if (repetition > 0) times.push_back(Since(start));
    }
    row.bandwidth.push_back(static_cast<double>(kBytesARepetition) / Median(times));
  }
  return row;
}

void RunThreads(const std::string& name, const std::function<Communicator&(int)>& end) {
  std::thread other([&] { (void)Measure(end(1)); });
  const Row row = Measure(end(0));
  other.join();
  Print(name, row);
}

void RunInProcess() {
  InProcessGroup group(2);
  RunThreads("in process",
             [&group](int rank) -> Communicator& { return group.communicator(rank); });
}

void RunTcp() {
  absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  Check(listener.status());
  const int port = LocalEndpoint(*listener)->port;
  std::unique_ptr<Communicator> ends[2];
  const auto open = [&](int rank, Descriptor own) {
    Launch launch;
    launch.rank = rank;
    launch.size = 2;
    launch.address = "127.0.0.1";
    launch.port = port;
    auto opened = OpenTcp(launch, {}, std::move(own));
    Check(opened.status());
    ends[rank] = *std::move(opened);
  };
  std::thread other([&] { open(1, {}); });
  open(0, *std::move(listener));
  other.join();
  RunThreads("TCP", [&ends](int rank) -> Communicator& { return *ends[rank]; });
  std::thread leaving([&] { ends[1].reset(); });
  ends[0].reset();
  leaving.join();
}

void MeasureMpi(MpiProcess& process) {
  auto opened = process.Open({});
  Check(opened.status());
  if ((*opened)->size() != 2) Check(absl::InvalidArgumentError("needs mpirun -n 2"));
  const Row row = Measure(**opened);
  if ((*opened)->rank() == 0) Print("MPI", row);
}

void RunMpi() {
  MpiProcess process;
  MeasureMpi(process);
  (void)process.Finalise();
}

void RunMemcpy() {
  std::vector<char> from(kWindow * kSizes[2], 1);
  std::vector<char> to(kWindow * kSizes[2], 2);
  Row row;
  for (const size_t bytes : kSizes) {
    std::vector<double> times;
    const auto messages = kBytesARepetition / bytes;
    for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
      const auto start = Clock::now();
      for (size_t i = 0; i < messages; ++i) {
        const size_t at = bytes * (i % kWindow);
        std::memcpy(to.data() + at, from.data() + at, bytes);
      }
      if (repetition > 0) times.push_back(Since(start));
    }
    row.bandwidth.push_back(static_cast<double>(kBytesARepetition) / Median(times));
  }
  Print("memcpy", row);
}

// Blocking reads and writes of a socket, which ignore errors: a benchmark on this machine.
struct PlainSocket {
  Descriptor socket;
  void Send(const char* data, size_t bytes) const { Check(SendAll(socket, {data, bytes}, Soon())); }
  void Receive(char* data, size_t bytes) const {
    while (bytes > 0) {
      const ssize_t got = read(socket.get(), data, bytes);
      if (got > 0) {
        data += got;
        bytes -= static_cast<size_t>(got);
      } else {
        Check(AwaitEvents(socket, POLLIN, Soon()));
      }
    }
  }
};

Row MeasurePlain(const PlainSocket& socket, bool first) {
  std::vector<char> data(kSizes[2], 1);
  Row row;
  std::vector<double> times;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    const auto start = Clock::now();
    for (int i = 0; i < kRounds; ++i) {
      if (first) socket.Send(data.data(), 8);
      socket.Receive(data.data(), 8);
      if (!first) socket.Send(data.data(), 8);
    }
    if (repetition > 0) times.push_back(Since(start) / (2 * kRounds));
  }
  row.latency = Median(times);
  for (const size_t bytes : kSizes) {
    times.clear();
    for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
      const auto start = Clock::now();
      for (size_t i = 0; i < kBytesARepetition / bytes; ++i) {
        if (first) {
          socket.Send(data.data(), bytes);
        } else {
          socket.Receive(data.data(), bytes);
        }
      }
      if (first) socket.Receive(data.data(), 1);
      if (!first) socket.Send(data.data(), 1);
      if (repetition > 0) times.push_back(Since(start));
    }
    row.bandwidth.push_back(static_cast<double>(kBytesARepetition) / Median(times));
  }
  return row;
}

void RunSockets() {
  const absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  Check(listener.status());
  absl::StatusOr<Descriptor> one = ConnectTo(*LocalEndpoint(*listener), Soon());
  absl::StatusOr<Descriptor> two = AcceptFrom(*listener);
  Check(one.status());
  Check(two.status());
  const PlainSocket ends[2] = {{*std::move(one)}, {*std::move(two)}};
  std::thread other([&] { (void)MeasurePlain(ends[1], false); });
  const Row row = MeasurePlain(ends[0], true);
  other.join();
  Print("sockets", row);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  if (name == "memcpy") {
    sluice::RunMemcpy();
  } else if (name == "sockets") {
    sluice::RunSockets();
  } else if (name == "inprocess") {
    sluice::RunInProcess();
  } else if (name == "tcp") {
    sluice::RunTcp();
  } else if (name == "mpi") {
    sluice::RunMpi();
  } else {
    fmt::print(stderr, "transports_bench memcpy|sockets|inprocess|tcp|mpi\n");
    return 2;
  }
  return 0;
}
