// The conformance suite between processes that mpirun started: all of them run the same tests, each
// as one rank, and the first one reports.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "comm/mpi/process.h"
#include "tests/comm/conformance.h"

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
