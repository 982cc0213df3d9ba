// Ranks as processes, and what the other ranks do when one of them dies, stops or is cut off: every
// rank must end with exit code 5 and a message that names the lost rank. No time is measured: where
// a loss must be noticed at once, the time-out is an hour, far more than Child waits for an end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "models/device/instant.h"
#include "tests/built_files.h"
#include "tests/comm/faults/child.h"
#include "tests/comm/faults/free_port.h"
#include "tests/comm/faults/rank_group.h"

namespace sluice {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Milliseconds, as comm_rank takes them.
constexpr char kHour[] = "3600000";
// No healthy rank says nothing for so long; a test in which one is silent takes about that long.
constexpr char kMoment[] = "3000";

TEST(Faults, WithoutAnyEverybodyIsDone) {
  const RankGroup group = StartGroup(4, {"50", kHour, "100000"});
  for (const auto& child : group) {
    EXPECT_EQ(child->AwaitExit(), 0);
    EXPECT_THAT(child->output(), HasSubstr("done"));
  }
}

TEST(Faults, AKilledRankIsMissedAtOnce) {
  for (int trial = 0; trial < 6; ++trial) {
    const RankGroup group = StartGroup(3, {"0", kHour, trial % 2 == 0 ? "8" : "3000000"});
    AwaitReady(group);
    absl::SleepFor(absl::Milliseconds(7 * trial));  // so that it dies at different actions
    const int victim = trial % 3;
    kill(group[static_cast<size_t>(victim)]->pid(), SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      ExpectLost(*group[static_cast<size_t>(rank)],
                 absl::StrCat("rank ", victim, " is gone (connection closed)"));
    }
  }
}

TEST(Faults, AStoppedRankIsMissedByTheTimeout) {
  const RankGroup group = StartGroup(3, {"0", kMoment, "1000"});
  AwaitReady(group);
  group[1]->Stop();
  for (const int rank : {0, 2}) {
    // Both wait for rank 1; the first of them to notice has told the other.
    ExpectLost(*group[static_cast<size_t>(rank)], "rank 1");
    EXPECT_THAT(group[static_cast<size_t>(rank)]->output(), HasSubstr("stopped or cut off"));
  }
  kill(group[1]->pid(), SIGCONT);
  EXPECT_EQ(group[1]->AwaitExit(), 5) << "and it learns what has happened";
}

TEST(Faults, ARankThatLeavesEarlyIsNamed) {
  const int port = FreePort();
  RankGroup group;
  for (int rank = 0; rank < 3; ++rank) {
    const char* rounds = rank == 2 ? "5" : "0";
    group.push_back(std::make_unique<Child>(
        std::vector<std::string>{CommRankProgram(), "tcp", rounds, kHour, "8"},
        TorchrunEnvironment(rank, 3, "127.0.0.1", port)));
  }
  EXPECT_EQ(group[2]->AwaitExit(), 0);
  ExpectLost(*group[0], "rank 2 has left");
  ExpectLost(*group[1], "rank 2 has left");
}

#ifdef SLUICE_MPIEXEC

class MpiFaults : public testing::Test {
 protected:
  static std::unique_ptr<Child> Start(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {
        SLUICE_MPIEXEC,    "--mca", "plm", "isolated",        "--allow-run-as-root",
        "--oversubscribe", "-n",    "3",   CommRankProgram(), "mpi"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<Child>(command,
                                   std::vector<std::string>{"ASAN_OPTIONS=detect_leaks=0"});
  }
  static int ProcessOf(const std::string& output, int rank) {
    const std::string line = absl::StrCat("ready ", rank, " of 3, process ");
    const size_t at = output.find(line);
    return at == std::string::npos ? 0 : std::atoi(output.c_str() + at + line.size());
  }
  // A rank that has ended is not reaped as long as nobody has waited for it.
  static bool Lives(int pid) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    std::string stat;
    return std::getline(file, stat) && stat.find(") Z ") == std::string::npos;
  }
  static void ExpectNoOrphans(const std::string& output) {
    for (int rank = 0; rank < 3; ++rank) {
      const int pid = ProcessOf(output, rank);
      ASSERT_GT(pid, 0);
      const Instant deadline = Instant::Now() + absl::Minutes(1);  // only bounds a hang
      while (Lives(pid) && Instant::Now() < deadline) absl::SleepFor(absl::Milliseconds(5));
      EXPECT_FALSE(Lives(pid)) << "rank " << rank << " lives on";
    }
  }
};

TEST_F(MpiFaults, WithoutAnyEverybodyIsDone) {
  const auto ranks = Start({"50", kHour, "100000"});
  EXPECT_EQ(ranks->AwaitExit(), 0) << ranks->output();
  ExpectNoOrphans(ranks->output());
}

TEST_F(MpiFaults, AKilledRankEndsAll) {
  const auto ranks = Start({"0", kHour, "100000"});
  ASSERT_TRUE(ranks->AwaitOutput("ready", 3)) << ranks->output();
  kill(ProcessOf(ranks->output(), 1), SIGKILL);
  EXPECT_NE(ranks->AwaitExit(), 0);  // mpirun notices it first, and returns its own exit code
  EXPECT_THAT(ranks->output(), HasSubstr("rank 1 is gone (its process has ended)"));
  ExpectNoOrphans(ranks->output());
}

TEST_F(MpiFaults, AStoppedRankIsMissedByTheTimeout) {
  const auto ranks = Start({"0", kMoment, "100000"});
  ASSERT_TRUE(ranks->AwaitOutput("ready", 3)) << ranks->output();
  kill(ProcessOf(ranks->output(), 2), SIGSTOP);
  EXPECT_EQ(ranks->AwaitExit(), 5) << ranks->output();
  EXPECT_THAT(ranks->output(), HasSubstr("DEADLINE_EXCEEDED: rank "));
  EXPECT_THAT(ranks->output(), HasSubstr("(rank 2 is stopped)"));
  ExpectNoOrphans(ranks->output());
}

#endif  // SLUICE_MPIEXEC

// Three machines: network namespaces with one network card each, connected by a bridge.
class Machines {
 public:
  Machines() : tag_(absl::StrCat("sl", getpid() % 100000)) {
    works_ = Run(absl::StrCat("ip link add ", tag_, "b type bridge && ip link set ", tag_, "b up"));
    for (int i = 0; works_ && i < 3; ++i) {
      const std::string name = Name(i);
      works_ = Run(absl::StrCat("ip netns add ", name, " && ip link add ", name,
                                "h type veth peer name eth0 netns ", name, " && ip link set ", name,
                                "h master ", tag_, "b up && ip -n ", name, " addr add 10.213.7.",
                                i + 1, "/24 dev eth0 && ip -n ", name,
                                " link set eth0 up && ip -n ", name, " link set lo up"));
    }
  }
  ~Machines() {
    for (int i = 0; i < 3; ++i) Run(absl::StrCat("ip netns del ", Name(i)));
    Run(absl::StrCat("ip link del ", tag_, "b"));
  }
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  bool works() const { return works_; }
  static std::string Address(int machine) { return absl::StrCat("10.213.7.", machine + 1); }
  static std::string AddressOfIpv6(int machine) {
    return absl::StrCat("fd00:213:7::", machine + 1);
  }
  // Gives each machine an address of IPv6, too; false where there is none.
  bool AddIpv6() const {
    bool works = true;
    for (int i = 0; i < 3; ++i) {
      works = works && Run(absl::StrCat("ip -n ", Name(i), " addr add ", AddressOfIpv6(i),
                                        "/64 dev eth0 nodad"));
    }
    return works;
  }
  std::unique_ptr<Child> Start(int machine, int rank, int size,
                               const std::vector<std::string>& arguments,
                               const std::string& address = Address(0)) const {
    std::vector<std::string> command = {"ip",          "netns",           "exec",
                                        Name(machine), CommRankProgram(), "tcp"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<Child>(command, TorchrunEnvironment(rank, size, address, 29555));
  }
  void PullCable(int machine) const {
    EXPECT_TRUE(Run(absl::StrCat("ip link set ", Name(machine), "h down")));
  }

 private:
  std::string Name(int machine) const { return absl::StrCat(tag_, "m", machine); }
  static bool Run(const std::string& command) {
    return std::system(absl::StrCat("{ ", command, "; } >/dev/null 2>&1").c_str()) == 0;
  }

  const std::string tag_;
  bool works_ = false;
};

TEST(SeveralMachines, MeetAndTalk) {
  const Machines machines;
  if (!machines.works()) GTEST_SKIP() << "no network namespaces here (needs root and iproute2)";
  RankGroup group;
  // Two ranks are on rank 0's machine, and one of them reaches it without the network.
  const int machine_of[] = {0, 0, 1, 2};
  for (int rank = 0; rank < 4; ++rank) {
    group.push_back(machines.Start(machine_of[rank], rank, 4, {"30", kHour, "100000"}));
  }
  for (const auto& child : group) EXPECT_EQ(child->AwaitExit(), 0) << child->output();
}

TEST(SeveralMachines, MeetOverIpv6) {
  const Machines machines;
  if (!machines.works()) GTEST_SKIP() << "no network namespaces here (needs root and iproute2)";
  if (!machines.AddIpv6()) GTEST_SKIP() << "no IPv6 here";
  RankGroup group;
  const int machine_of[] = {0, 0, 1, 2};
  for (int rank = 0; rank < 4; ++rank) {
    group.push_back(machines.Start(machine_of[rank], rank, 4, {"30", kHour, "100000"},
                                   Machines::AddressOfIpv6(0)));
  }
  for (const auto& child : group) EXPECT_EQ(child->AwaitExit(), 0) << child->output();
}

TEST(SeveralMachines, OneThatIsCutOffIsMissedByTheTimeout) {
  const Machines machines;
  if (!machines.works()) GTEST_SKIP() << "no network namespaces here (needs root and iproute2)";
  RankGroup group;
  for (int rank = 0; rank < 3; ++rank) {
    group.push_back(machines.Start(rank, rank, 3, {"0", kMoment, "1000"}));
  }
  AwaitReady(group);
  machines.PullCable(1);
  for (const auto& child : group) ExpectLost(*child, "stopped or cut off");
  EXPECT_THAT(group[0]->output(), AnyOf(HasSubstr("of rank 1 for"), HasSubstr("rank 1, round")));
}

}  // namespace
}  // namespace sluice
