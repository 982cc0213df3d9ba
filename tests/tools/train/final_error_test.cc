#include "tools/train/ending/final_error.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "comm/local/in_process.h"
#include "comm/where.h"
#include "tests/comm/forwarding_communicator.h"
#include "tools/command.h"
#include "tools/train/train_world.h"

namespace sluice {
namespace {

constexpr absl::Duration kPatience = absl::Milliseconds(50);

void Print(const absl::Status& status) {
  std::fprintf(stderr, "lost: %s\n", std::string(status.message()).c_str());
}

// A layer that takes a long time.
[[noreturn]] void Compute() {
  while (true) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(FinalErrorDeathTest, IsPrintedForARankThatIsComputing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        InProcessGroup group(2);
        const FinalErrorPrinter printer([&] { return group.communicator(0).failure(); },
                                        [] { return true; }, kPatience, Print);
        group.communicator(1).Abort(absl::UnavailableError("rank 1 is gone"));
        Compute();
      },
      testing::ExitedWithCode(kExitPeerLost), "lost: rank 1 is gone");
}

// The answer to what FinalErrorPrinter asks, and how often it has asked.
class ToldToStop {
 public:
  explicit ToldToStop(bool told) : told_(told) {}
  std::function<bool()> Question() {
    return [this] {
      ++looks_;
      return told_;
    };
  }
  // Waits for some looks that begin after this call.
  void AwaitLooks() const {
    for (const int before = looks_; looks_ < before + 3;) absl::SleepFor(absl::Milliseconds(1));
  }

 private:
  const bool told_;
  std::atomic<int> looks_{0};
};

// A rank that is computing goes on after SIGTERM alone, and after the loss of another rank alone. It
// also ends by itself where the printer is destroyed before its patience is over.
TEST(FinalErrorPrinter, PrintsNothingWithoutNeed) {
  for (const bool told_to_stop : {false, true}) {
    InProcessGroup group(2);
    ToldToStop told(told_to_stop);
    int printed = 0;
    {
      const FinalErrorPrinter printer([&] { return group.communicator(0).failure(); },
                                      told.Question(), absl::ZeroDuration(),
                                      [&](const absl::Status&) { ++printed; });
      if (!told_to_stop) group.communicator(1).Abort(absl::UnavailableError("rank 1 is gone"));
      told.AwaitLooks();
    }
    EXPECT_EQ(printed, 0);
  }
  InProcessGroup group(2);
  group.communicator(1).Abort(absl::UnavailableError("rank 1 is gone"));
  const FinalErrorPrinter printer([&] { return group.communicator(0).failure(); },
                                  [] { return true; }, absl::Hours(1), Print);
}

TEST(PrintsError, IsRankZeroOrRankOneWhereRankZeroIsLostOrEveryRankWhileLeaving) {
  const auto gone = [](int peer, Where where) {
    where.peer = peer;
    return WithWhere(absl::UnavailableError("is gone"), where);
  };
  const absl::Status lost = gone(0, {.rank = 1, .action = "0F3"});
  const absl::Status late = gone(0, {.rank = 2, .moment = Where::Moment::kLeaving});
  const absl::Status other = gone(2, {.rank = 1, .action = "0F3"});
  const absl::Status bad = absl::InvalidArgumentError("rank 0 has another seed");
  for (const absl::Status& status : {lost, late, other, bad}) EXPECT_TRUE(PrintsError(0, status));
  EXPECT_TRUE(PrintsError(1, lost));
  EXPECT_FALSE(PrintsError(2, lost));
  EXPECT_TRUE(PrintsError(1, late));
  EXPECT_TRUE(PrintsError(2, late));
  EXPECT_FALSE(PrintsError(1, other));
  EXPECT_FALSE(PrintsError(1, bad));
}

TEST(PrintsError, IsEveryRankWhereTheyWereNotStartedAlike) {
  const absl::Status differ = WithWhere(absl::FailedPreconditionError("different from rank 0"),
                                        {.moment = Where::Moment::kAgreement});
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(PrintsError(rank, differ));
}

// A rank of a group of which some others are lost.
class AmongLost : public ForwardingCommunicator {
 public:
  AmongLost(Communicator* inner, std::set<int> lost)
      : ForwardingCommunicator(inner), lost_(std::move(lost)) {}
  bool KnowsOfFailure(int peer, Instant /*deadline*/) const override {
    return !lost_.contains(peer);
  }

 private:
  const std::set<int> lost_;
};

TEST(PrintsError, IsTheLowestRankThatLives) {
  const absl::Status gone = WithPeer(absl::UnavailableError("rank 1 is gone"), 1);
  const auto prints = [&gone](int rank, std::set<int> lost) {
    InProcessGroup group(4);
    const AmongLost world(&group.communicator(rank), std::move(lost));
    EXPECT_EQ(PrintsError(world, gone), rank == 0) << "nobody has been told";
    group.communicator(rank).Abort(gone);
    return PrintsError(world, gone);
  };
  EXPECT_TRUE(prints(0, {1}));
  for (const int rank : {2, 3}) EXPECT_FALSE(prints(rank, {1})) << rank;
  EXPECT_TRUE(prints(2, {0, 1}));
  EXPECT_FALSE(prints(3, {0, 1}));
  EXPECT_TRUE(prints(3, {0, 1, 2}));
  EXPECT_TRUE(prints(1, {0, 2}));
}

TEST(FirstOfSiblings, IsTrueForOneOfThoseWithOneParent) {
  int said[2] = {};
  ASSERT_EQ(pipe(said), 0);
  constexpr int kRanks = 4;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      const char first = FirstOfSiblings() ? '1' : '0';
      if (write(said[1], &first, 1) != 1) _exit(1);
      pause();  // holds the name until all have asked
      _exit(0);
    }
    ranks.push_back(child);
  }
  int first = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    char answer = 0;
    ASSERT_EQ(read(said[0], &answer, 1), 1);
    first += answer == '1' ? 1 : 0;
  }
  EXPECT_EQ(first, 1);
  for (const pid_t rank : ranks) {
    kill(rank, SIGKILL);
    waitpid(rank, nullptr, 0);
  }
  close(said[0]);
  close(said[1]);
}

}  // namespace
}  // namespace sluice
