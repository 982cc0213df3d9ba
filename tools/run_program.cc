#include "tools/run_program.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/memory_file.h"

extern char** environ;

namespace sluice {
namespace {

absl::StatusOr<pid_t> Start(const ProgramCall& call, int input, int output, int errors) {
  std::vector<std::string> words = {std::filesystem::path(call.program).filename().string()};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, call.program.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return pid;
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot start ", call.program, ": ", std::strerror(error)));
}

// How it has ended, as waitpid says it; nullopt: not within `patience`, so it was killed.
std::optional<int> WaitFor(pid_t pid, absl::Duration patience) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  const auto start = std::chrono::steady_clock::now();
  const int flags = patience == absl::InfiniteDuration() ? 0 : WNOHANG;
  int ended = 0;
  bool killed = false;
  while (true) {
    const pid_t waited = waitpid(pid, &ended, killed ? 0 : flags);
    // Where signals of children are ignored, nothing is known of one that has ended.
    if (waited == pid || (waited < 0 && errno != EINTR)) break;
    if (waited < 0) continue;
    if (absl::FromChrono(std::chrono::steady_clock::now() - start) < patience) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    kill(pid, SIGKILL);
    killed = true;
  }
  return killed ? std::nullopt : std::make_optional(ended);
}

}  // namespace

absl::StatusOr<EndedProgram> RunProgram(const ProgramCall& call) {
  const MemoryFile input, output, errors;
  absl::Status status = input.status();
  status.Update(output.status());
  status.Update(errors.status());
  if (status.ok()) status = WriteAll(input.fd(), call.input, "what another program reads");
  if (!status.ok()) return status;
  lseek(input.fd(), 0, SEEK_SET);
  const absl::StatusOr<pid_t> pid = Start(call, input.fd(), output.fd(), errors.fd());
  if (!pid.ok()) return pid.status();
  const std::optional<int> ended = WaitFor(*pid, call.patience);
  if (!ended.has_value()) {
    return absl::DeadlineExceededError(
        absl::StrCat(call.program, " took longer than ", absl::FormatDuration(call.patience)));
  }
  absl::StatusOr<std::string> out = ReadWholeFile(output.path(), kMostTextBytes);
  absl::StatusOr<std::string> err = ReadWholeFile(errors.path(), kMostTextBytes);
  if (!out.ok()) return out.status();
  if (!err.ok()) return err.status();
  const int code = WIFEXITED(*ended) ? WEXITSTATUS(*ended) : static_cast<int>(kExitPeerLost);
  return EndedProgram{code, *std::move(out), *std::move(err)};
}

}  // namespace sluice
