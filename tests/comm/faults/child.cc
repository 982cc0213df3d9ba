#include "tests/comm/faults/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice {
namespace {

// Only bounds a hang, on machines of any speed.
constexpr absl::Duration kPatience = absl::Minutes(3);

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Whether the process is stopped, or has ended.
bool IsStopped(int pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  if (!std::getline(file, stat)) return true;
  return stat.find(") T ") != std::string::npos || stat.find(") Z ") != std::string::npos;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const std::vector<char*> arguments = Pointers(command);
  const std::vector<char*> changes = Pointers(environment);
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    signal(SIGINT, SIG_DFL);  // jobs in the background begin without
    for (char* change : changes) {
      if (change != nullptr) putenv(change);
    }
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

Child::~Child() {
  if (!ended_ && pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(pipe_);
}

bool Child::ReadSome(Instant deadline) {
  pollfd waiting{.fd = pipe_, .events = POLLIN, .revents = 0};
  const int64_t left = absl::ToInt64Milliseconds(deadline - Instant::Now());
  if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
  char buffer[4096];
  const ssize_t got = read(pipe_, buffer, sizeof(buffer));
  if (got <= 0) return false;
  output_.append(buffer, static_cast<size_t>(got));
  return true;
}

void Child::Stop() const {
  kill(pid_, SIGSTOP);
  const Instant deadline = Instant::Now() + kPatience;
  while (!IsStopped(pid_) && Instant::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
}

bool Child::AwaitOutput(const std::string& text, int times) {
  const Instant deadline = Instant::Now() + kPatience;
  while (true) {
    int found = 0;
    for (size_t at = output_.find(text); at != std::string::npos; at = output_.find(text, at + 1)) {
      ++found;
    }
    if (found >= times) return true;
    if (!ReadSome(deadline)) return false;
  }
}

int Child::AwaitExit() {
  const Instant deadline = Instant::Now() + kPatience;
  while (ReadSome(deadline)) {
  }
  if (Instant::Now() >= deadline) return -1;
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return -1;
  ended_ = true;
  constexpr int kSignalled = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

}  // namespace sluice
