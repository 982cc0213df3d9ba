// The NCCL transport over the real NCCL and real GPUs: ranks are threads, each with one GPU. A test
// that needs more GPUs than there are is skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/local/in_process.h"
#include "comm/nccl/nccl.h"
#include "models/device/cuda_device.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(60);
Instant Soon() { return Instant::Now() + kTimeout; }

// The reason why a test with this number of GPUs cannot run; empty where it can.
std::string Lack(int gpus) {
  if (CudaDeviceCount() < gpus)
    return absl::StrCat(gpus, " GPUs are needed, there are ", CudaDeviceCount());
  const auto nccl = LoadNccl();
  return nccl.ok() ? "" : std::string(nccl.status().message());
}

struct Rank {
  Communicator& group;
  Device& device;
  Stream compute;
};

// Connects `ranks` threads, rank r on GPU ordinals[r]; returns the results by rank.
std::vector<absl::Status> OnGpus(const std::vector<int>& ordinals,
                                 const std::function<void(const Rank&)>& body) {
  const int ranks = static_cast<int>(ordinals.size());
  InProcessGroup host(ranks);
  std::vector<std::pair<int, int>> edges;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) edges.emplace_back(from, to);
  }
  std::vector<absl::Status> statuses(ordinals.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      auto device = OpenCudaDevice(ordinals[r]);
      ASSERT_TRUE(device.ok()) << device.status();
      const auto stream = (*device)->NewStream();
      ASSERT_TRUE(stream.ok()) << stream.status();
      auto end = ConnectNccl(
          {.nccl = *LoadNccl(), .ordinal = ordinals[r], .edges = edges, .timeout = kTimeout},
          &host.communicator(rank), device->get(), *stream);
      statuses[r] = end.status();
      if (end.ok()) body({.group = **end, .device = **device, .compute = *stream});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(NcclGpu, TwoRanksOnOneGpuAreToldSo) {
  if (const std::string lack = Lack(1); !lack.empty()) GTEST_SKIP() << lack;
  for (const absl::Status& status : OnGpus({0, 0}, [](const Rank&) { FAIL(); })) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("both on GPU 0"));
  }
}

TEST(NcclGpu, MessagesGoRoundARing) {
  if (const std::string lack = Lack(2); !lack.empty()) GTEST_SKIP() << lack;
  const int ranks = std::min(CudaDeviceCount(), 4);
  std::vector<int> ordinals;
  for (int rank = 0; rank < ranks; ++rank) ordinals.push_back(rank);
  for (const absl::Status& status : OnGpus(ordinals, [ranks](const Rank& rank) {
         constexpr int64_t kBytes = (int64_t{1} << 22) + 4;
         constexpr int kRounds = 50;
         auto out = rank.device.Allocate(kBytes);
         auto in = rank.device.Allocate(kBytes);
         ASSERT_TRUE(out.ok() && in.ok());
         const int self = rank.group.rank();
         const std::vector<std::byte> mine(kBytes, static_cast<std::byte>(self + 1));
         rank.device.Copy(rank.compute, out->data(), mine.data(), mine.size());
         const int next = (self + 1) % ranks;
         const int before = (self + ranks - 1) % ranks;
         for (int round = 0; round < kRounds; ++round) {
           Ticket sent = 0;
           Ticket received = 0;
           ASSERT_TRUE(rank.group.PostReceive(before, in->data(), kBytes, &received).ok());
           ASSERT_TRUE(rank.group.PostSend(next, out->data(), kBytes, &sent).ok());
           ASSERT_TRUE(rank.group.WaitReceive(before, received, Soon()).ok());
           ASSERT_TRUE(rank.group.WaitSend(next, sent, Soon()).ok());
           rank.device.Copy(rank.compute, out->data(), in->data(), kBytes);
         }
         const absl::Status done = rank.device.Synchronize(rank.compute, Soon());
         ASSERT_TRUE(done.ok()) << done;
         EXPECT_TRUE(rank.group.failure().ok()) << rank.group.failure();
         std::vector<std::byte> got(kBytes);
         rank.device.Copy(rank.compute, got.data(), out->data(), got.size());
         const int origin = ((self - kRounds) % ranks + ranks) % ranks;
         EXPECT_EQ(got, std::vector<std::byte>(kBytes, static_cast<std::byte>(origin + 1)));
       }))
    EXPECT_TRUE(status.ok()) << status;
}

// The peer never sends: the transport must end the kernel that waits on the GPU.
TEST(NcclGpu, AMessageThatDoesNotComeEndsWhatIsQueued) {
  if (const std::string lack = Lack(2); !lack.empty()) GTEST_SKIP() << lack;
  OnGpus({0, 1}, [](const Rank& rank) {
    auto memory = rank.device.Allocate(4);
    ASSERT_TRUE(memory.ok());
    if (rank.group.rank() == 0) {
      Ticket ticket = 0;
      ASSERT_TRUE(rank.group.PostReceive(1, memory->data(), 4, &ticket).ok());
      ASSERT_TRUE(rank.group.WaitReceive(1, ticket, Instant::Now() + absl::Seconds(1)).ok());
      EXPECT_TRUE(rank.device.Synchronize(rank.compute, Soon()).ok());
    }
    const Instant late = Soon();
    while (rank.group.failure().ok() && Instant::Now() < late) std::this_thread::yield();
    EXPECT_EQ(rank.group.failure().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(rank.group.failure().message()), HasSubstr("from rank 1 to rank 0"));
  });
}

}  // namespace
}  // namespace sluice
