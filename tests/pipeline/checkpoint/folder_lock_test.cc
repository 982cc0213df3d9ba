#include "pipeline/checkpoint/directory/folder_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class FolderLockTest : public ::testing::Test {
 protected:
  // The holder of the lock, as the message to a second process names it.
  std::string Holder() const {
    const absl::Status refused = FolderLock::Take(path_).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << refused;
    return std::string(refused.message());
  }

  TempFolder folder_;
  std::string path_ = folder_ / "lock";
};

TEST_F(FolderLockTest, ASecondHolderIsToldOfTheFirst) {
  const absl::Time before = absl::Now();
  const auto lock = FolderLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  std::array<char, 256> host = {};
  ASSERT_EQ(gethostname(host.data(), host.size()), 0);
  const std::string start =
      absl::StrCat("process ", getpid(), " on host ", host.data(), ", since ");
  const std::string holder = Holder();
  ASSERT_EQ(holder.substr(0, start.size()), start);
  absl::Time since;
  std::string error;
  ASSERT_TRUE(
      absl::ParseTime("%Y-%m-%d %H:%M:%E*S UTC", holder.substr(start.size()), &since, &error))
      << holder << ": " << error;
  EXPECT_GE(since, before - absl::Seconds(1)) << "the text has whole seconds";
  EXPECT_LE(since, absl::Now());
}

TEST_F(FolderLockTest, IsFreeOnceItsHolderIsGone) {
  for (int round = 0; round < 3; ++round) {
    const auto lock = FolderLock::Take(path_);
    ASSERT_TRUE(lock.ok()) << lock.status();
  }
  EXPECT_EQ(ReadBytes(path_), "") << "names nobody";
}

// Starts a process that takes the lock and waits to be killed.
pid_t StartHolder(const std::string& path) {
  std::array<int, 2> pipe_ends = {};
  EXPECT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FolderLock::Take(path);
    const char taken = lock.ok() ? 'y' : 'n';
    if (write(pipe_ends[1], &taken, 1) == 1) pause();
    _exit(1);
  }
  char taken = 0;
  EXPECT_EQ(read(pipe_ends[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  for (const int end : pipe_ends) close(end);
  return child;
}

TEST_F(FolderLockTest, AProcessThatIsKilledLeavesNoLock) {
  const pid_t child = StartHolder(path_);
  ASSERT_GT(child, 0);
  EXPECT_THAT(Holder(), HasSubstr(absl::StrCat("process ", child, " on host ")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(ReadBytes(path_), HasSubstr(absl::StrCat("process ", child, " ")))
      << "the text stays";
  const auto lock = FolderLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_THAT(Holder(), HasSubstr(absl::StrCat("process ", getpid(), " ")));
}

// As a process does with the one that it goes on for.
TEST_F(FolderLockTest, WhatIsSharedIsHeldUntilNobodyHasIt) {
  auto lock = FolderLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  Descriptor copy(dup((*lock)->Share()));
  lock->reset();
  EXPECT_THAT(Holder(), HasSubstr(absl::StrCat("process ", getpid(), " ")));
  lock = FolderLock::Take(path_, std::move(copy));
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_THAT(Holder(), HasSubstr(absl::StrCat("process ", getpid(), " ")));
  lock->reset();
  EXPECT_TRUE(FolderLock::Take(path_).ok());
}

// A process that has been given the lock names itself.
TEST_F(FolderLockTest, SaysWhoWasGivenTheLock) {
  const auto lock = FolderLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const int shared = (*lock)->Share();
  const pid_t child = fork();
  if (child == 0) _exit(FolderLock::Take(path_, Descriptor(dup(shared))).ok() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(Holder(), HasSubstr(absl::StrCat("process ", child, " on host ")));
}

TEST_F(FolderLockTest, ALockOfAFileThatIsGoneIsNone) {
  auto lock = FolderLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  Descriptor copy(dup((*lock)->Share()));
  std::filesystem::remove(path_);
  const auto other = FolderLock::Take(path_, std::move(copy));
  ASSERT_TRUE(other.ok()) << other.status();
  lock->reset();
  EXPECT_THAT(Holder(), HasSubstr(absl::StrCat("process ", getpid(), " ")));
}

TEST_F(FolderLockTest, WhateverTheFileSaysIsSafeForATerminal) {
  const auto lock = FolderLock::Take(path_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  std::ofstream(path_) << "\x1b[2Jline\nother line" << std::string(100'000, 'x');
  const std::string holder = Holder();
  EXPECT_THAT(holder.substr(0, 30), HasSubstr("\uFFFD[2Jline\uFFFDother line"));
  EXPECT_LT(holder.size(), 1000u);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(Holder(), "a process that has just begun");
}

TEST_F(FolderLockTest, SaysWhyAFileCannotBeLocked) {
  const absl::Status missing = FolderLock::Take(folder_ / "none/lock").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr(folder_ / "none/lock"));
  std::filesystem::create_symlink("elsewhere", path_);
  const absl::Status link = FolderLock::Take(path_).status();
  EXPECT_FALSE(link.ok());
  EXPECT_NE(link.code(), absl::StatusCode::kAlreadyExists) << link;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
}

}  // namespace
}  // namespace sluice
