#include "comm/machine_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice {
namespace {

TEST(MachineProcess, KnowsItself) {
  const MachineProcess self = ThisMachineProcess();
  EXPECT_EQ(self.process, getpid());
  EXPECT_NE(self.machine, 0u);
  EXPECT_EQ(self.machine, ThisMachineProcess().machine);
  EXPECT_FALSE(HasEnded(self));
  EXPECT_TRUE(SameMachine(self, self));
}

TEST(MachineProcess, IsOfNoMachineThatDoesNotSayWhatItIs) {
  const MachineProcess self = ThisMachineProcess();
  EXPECT_FALSE(SameMachine(self, {.machine = self.machine + 1, .process = self.process}));
  EXPECT_FALSE(SameMachine({.machine = 0}, {.machine = 0}));
}

TEST(MachineProcess, HasEndedOnceItsParentHasHeardSo) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const MachineProcess process{.machine = ThisMachineProcess().machine, .process = child};
  EXPECT_FALSE(HasEnded(process));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(HasEnded(process));
}

TEST(MachineProcess, IsStoppedUntilItGoesOn) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  const MachineProcess process{.machine = ThisMachineProcess().machine, .process = child};
  EXPECT_FALSE(IsStopped(process));
  int status = 0;
  kill(child, SIGSTOP);
  waitpid(child, &status, WUNTRACED);
  EXPECT_TRUE(IsStopped(process));
  kill(child, SIGCONT);
  waitpid(child, &status, WCONTINUED);
  EXPECT_FALSE(IsStopped(process));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsStopped(process)) << "it has ended";
}

}  // namespace
}  // namespace sluice
