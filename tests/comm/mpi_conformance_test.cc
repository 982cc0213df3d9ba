// The conformance suite between processes that mpirun started: all of them run the same tests, each
// as one rank, and the first one reports.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/process.h"
#include "models/device/host_memory.h"
#include "tests/comm/conformance.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

MpiProcess& ThisProcess() {
  static MpiProcess process;
  return process;
}

class MpiRanks : public Ranks {
 public:
  MpiRanks(int ranks, size_t capacity) {
    auto opened = ThisProcess().Open({.capacity = capacity, .ranks = ranks});
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (opened.ok()) communicator_ = *std::move(opened);
  }
  void Run(const std::function<void(Communicator&)>& body) override {
    if (communicator_ != nullptr) body(*communicator_);
  }

 private:
  std::unique_ptr<Communicator> communicator_;  // null where this process is not in the group
};

INSTANTIATE_TEST_SUITE_P(Transports, Conformance,
                         testing::Values(Transport{
                             .name = "mpi",
                             .make = [](int ranks, size_t capacity) -> std::unique_ptr<Ranks> {
                               return std::make_unique<MpiRanks>(ranks, capacity);
                             },
                             .stream_messages = 100'000}),
                         TransportName);

TEST(Mpi, IsNamed) { EXPECT_NE(MpiLibrary(), ""); }

TEST(Mpi, OneGroupAtATime) {
  const auto first = ThisProcess().Open({});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ThisProcess().Open({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

constexpr size_t kMoreThanTwoGibibytes = (size_t{1} << 31U) + 12'345;
constexpr size_t kBlock = 65'536;

// Memory that no page is cleared of before it is written to, as vectors' would be.
using LongMessage = std::unique_ptr<uint8_t, decltype(&std::free)>;

LongMessage MakeLongMessage() {
  return {static_cast<uint8_t*>(std::calloc(kMoreThanTwoGibibytes, 1)), &std::free};
}

// Each block says which one it is.
void SendLong(Communicator& ranks, Instant deadline) {
  const LongMessage data = MakeLongMessage();
  ASSERT_NE(data, nullptr);
  for (size_t at = 0; at + sizeof(at) <= kMoreThanTwoGibibytes; at += kBlock) {
    std::memcpy(data.get() + at, &at, sizeof(at));
  }
  data.get()[kMoreThanTwoGibibytes - 1] = 7;
  Ticket ticket = 0;
  ASSERT_TRUE(ranks.PostSend(1, data.get(), kMoreThanTwoGibibytes, &ticket).ok());
  const absl::Status sent = ranks.WaitSend(1, ticket, deadline);
  ASSERT_TRUE(sent.ok()) << sent;
}

void ReceiveLong(Communicator& ranks, Instant deadline) {
  const LongMessage data = MakeLongMessage();
  ASSERT_NE(data, nullptr);
  Ticket ticket = 0;
  ASSERT_TRUE(ranks.PostReceive(0, data.get(), kMoreThanTwoGibibytes, &ticket).ok());
  const absl::Status received = ranks.WaitReceive(0, ticket, deadline);
  ASSERT_TRUE(received.ok()) << received;
  size_t wrong = 0;
  for (size_t at = 0; at + sizeof(at) <= kMoreThanTwoGibibytes; at += kBlock) {
    size_t found = 0;
    std::memcpy(&found, data.get() + at, sizeof(found));
    wrong += found == at ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(data.get()[kMoreThanTwoGibibytes - 1], 7);
}

// More bytes than an int counts, as the gradient of a large embedding has.
TEST(Mpi, DeliversMoreThanTwoGibibytes) {
  bool skipped = false;
  MpiRanks(2, 64).Run([&skipped](Communicator& ranks) {
    const Instant deadline = Instant::Now() + absl::Seconds(120);
    const auto needed = static_cast<int64_t>(5 * kMoreThanTwoGibibytes);
    // The first rank says for both whether there is memory enough.
    char enough = !kSanitized && CheckHostMemory(needed).ok() ? 1 : 0;
    Ticket ticket = 0;
    if (ranks.rank() == 0) {
      ASSERT_TRUE(ranks.PostSend(1, &enough, 1, &ticket).ok());
      ASSERT_TRUE(ranks.WaitSend(1, ticket, deadline).ok());
      if (enough != 0) SendLong(ranks, deadline);
    } else {
      ASSERT_TRUE(ranks.PostReceive(0, &enough, 1, &ticket).ok());
      ASSERT_TRUE(ranks.WaitReceive(0, ticket, deadline).ok());
      if (enough != 0) ReceiveLong(ranks, deadline);
    }
    skipped = enough == 0;
  });
  if (skipped) GTEST_SKIP() << "too little memory for two such messages, or a sanitizer";
}

// Failures of the other processes are printed too, and each of them changes mpirun's exit code.
class Failures : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    fprintf(stderr, "rank %s: %s: %s:%d: %s\n", std::getenv("OMPI_COMM_WORLD_RANK"),
            test == nullptr ? "" : test->name(), result.file_name(), result.line_number(),
            result.message());
  }
};

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool first = rank == nullptr || std::string(rank) == "0";
  // One report instead of five with the same name, which spoil each other. GoogleTest has read the
  // environment before main begins.
  if (!first) GTEST_FLAG_SET(output, "");
  testing::InitGoogleTest(&argc, argv);
  if (!first) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new sluice::Failures);
  }
  const int result = RUN_ALL_TESTS();
  const bool finalised = sluice::ThisProcess().Finalise() == sluice::MpiEnd::kFinalised;
  return finalised ? result : 1;
}
