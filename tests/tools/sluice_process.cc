#include "tests/tools/sluice_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/built_files.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
// Far more than a tiny run takes, even in a sanitizer's build on a busy machine.
constexpr auto kDeadline = std::chrono::seconds(120);
constexpr auto kPoll = std::chrono::milliseconds(2);
// `ulimit -f` counts blocks of 512 bytes in dash, Debian's sh.
constexpr int kBlocksPerKib = 2;

}  // namespace

SluiceProcess::SluiceProcess(const std::vector<std::string>& arguments, int file_limit_kib) {
  std::vector<std::string> words = {SluiceProgram()};
  if (file_limit_kib > 0) {
    words = {"/bin/sh", "-c",
             absl::StrCat("ulimit -f ", file_limit_kib * kBlocksPerKib, "; exec \"$0\" \"$@\""),
             SluiceProgram()};
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  const std::string out = folder_ / "out", err = folder_ / "err";
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  // Whatever the tests were started to ignore, as jobs in the background are.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), environ), 0) << argv[0];
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
}

SluiceProcess::~SluiceProcess() {
  if (pid_ <= 0 || Ended()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

bool SluiceProcess::Ended() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool SluiceProcess::WaitForOutput(const std::string& text) {
  const auto deadline = Clock::now() + kDeadline;
  while (Clock::now() < deadline) {
    const bool ended = Ended();
    if (ReadBytes(folder_ / "out").find(text) != std::string::npos) return true;
    if (ended) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

void SluiceProcess::Signal(int signal) const { kill(pid_, signal); }

ProcessResult SluiceProcess::Wait() {
  const auto start = Clock::now();
  while (!Ended()) {
    if (Clock::now() > start + kDeadline) {
      ADD_FAILURE() << "sluice hangs";
      kill(pid_, SIGKILL);
      waitpid(pid_, &status_, 0);
      ended_ = true;
      break;
    }
    std::this_thread::sleep_for(kPoll);
  }
  ProcessResult result;
  if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) result.signal = WTERMSIG(status_);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.out = ReadBytes(folder_ / "out");
  result.err = ReadBytes(folder_ / "err");
  return result;
}

ProcessResult RunSluice(const std::vector<std::string>& arguments, int file_limit_kib) {
  return SluiceProcess(arguments, file_limit_kib).Wait();
}

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace sluice
