#include "tests/comm/faults/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/built_files.h"
#include "tests/comm/faults/free_port.h"

namespace sluice {

std::vector<std::string> TorchrunEnvironment(int rank, int size, const std::string& address,
                                             int port) {
  return {absl::StrCat("RANK=", rank),
          absl::StrCat("WORLD_SIZE=", size),
          absl::StrCat("LOCAL_RANK=", rank),
          absl::StrCat("MASTER_ADDR=", address),
          absl::StrCat("MASTER_PORT=", port),
          "TORCHELASTIC_USE_AGENT_STORE=False",
          "SLUICE_SECRET=of this test and no other"};
}

RankGroup StartGroup(int size, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment) {
  const int port = FreePort();
  RankGroup group;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<std::string> command = {CommRankProgram(), "tcp"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = TorchrunEnvironment(rank, size, "127.0.0.1", port);
    variables.insert(variables.end(), environment.begin(), environment.end());
    group.push_back(std::make_unique<Child>(command, variables));
  }
  return group;
}

void AwaitReady(const RankGroup& group) {
  for (const auto& child : group) ASSERT_TRUE(child->AwaitOutput("ready")) << child->output();
}

void AwaitRound(const RankGroup& group) {
  constexpr char kSaid[] = "a whole round";
  Child& child = *group.front();
  int rounds = 1;
  for (size_t at = 0; (at = child.output().find(kSaid, at)) != std::string::npos; ++at) ++rounds;
  kill(child.pid(), SIGUSR2);
  ASSERT_TRUE(child.AwaitOutput(kSaid, rounds)) << child.output();
}

void ExpectLost(Child& child, const std::string& what) {
  EXPECT_EQ(child.AwaitExit(), 5) << child.output();
  EXPECT_THAT(child.output(), testing::HasSubstr(what));
}

}  // namespace sluice
