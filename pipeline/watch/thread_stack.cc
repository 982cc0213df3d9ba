#include "pipeline/watch/thread_stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <vector>

#include "absl/debugging/symbolize.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

namespace sluice {
namespace {

constexpr int kMostFrames = 64;
// Those of the handler itself and of the kernel's return from it.
constexpr int kOwnFrames = 2;
// What is shown: errors are printed in one line, of which people read the beginning.
constexpr size_t kMostShown = 16, kLongestName = 120;

// A signal's handler can reach nothing but what is global. `asked` is the thread that shall answer,
// 0 once it has begun to; `frames` are its own from then until `answered`.
struct Question {
  std::atomic<pid_t> asked{0};
  std::atomic<bool> answered{false};
  void* frames[kMostFrames] = {};
  int count = 0;
};
Question question;

// Calls only what a signal's handler may call: backtrace once it has been called before.
void Answer(int /*signal*/) {
  const int error = errno;
  auto self = static_cast<pid_t>(syscall(SYS_gettid));
  if (question.asked.compare_exchange_strong(self, 0)) {
    question.count = backtrace(question.frames, kMostFrames);
    question.answered.store(true, std::memory_order_release);
  }
  errno = error;
}

// The function; "" where nothing knows it.
std::string NameOf(const void* address) {
  char name[1024] = "";
  if (!absl::Symbolize(address, name, sizeof(name))) return "";
  return absl::StrReplaceAll(name, {{"(anonymous namespace)::", ""}}).substr(0, kLongestName);
}

// The library that has a function without a name.
std::string LibraryOf(const void* address) {
  Dl_info library = {};
  if (dladdr(address, &library) == 0 || library.dli_fname == nullptr) return "?";
  const absl::string_view path = library.dli_fname;
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string Describe(const Question& answer) {
  std::vector<std::string> names;
  for (int i = kOwnFrames; i < answer.count && names.size() < kMostShown; ++i) {
    // A frame further out is where its call returns to, which may be the next function's beginning.
    const char* const address = static_cast<const char*>(answer.frames[i]);
    std::string name = NameOf(i == kOwnFrames ? address : address - 1);
    if (names.empty() && name.empty()) name = LibraryOf(address);
    // How the standard library calls a function says nothing of what the thread does.
    const bool tells = !name.empty() && (names.empty() || !absl::StartsWith(name, "std::"));
    if (tells && (names.empty() || names.back() != name)) names.push_back(std::move(name));
  }
  return names.empty() ? "not known" : absl::StrJoin(names, " < ");
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A thread that does not answer is in the kernel, which does not let it go.
std::string DescribeSilent(pid_t thread) {
  const std::string folder = absl::StrCat("/proc/self/task/", thread);
  const std::string state = FirstLine(folder + "/stat");
  const size_t name_end = state.rfind(')');
  const bool known = name_end != std::string::npos && name_end + 2 < state.size();
  const std::string place = FirstLine(folder + "/wchan");
  return absl::StrCat("not known, for it does not answer: the kernel has it in state ",
                      known ? state.substr(name_end + 2, 1) : "?",
                      place.empty() || place == "0" ? "" : absl::StrCat(" in ", place));
}

int StackSignal() { return SIGRTMAX - 2; }

}  // namespace

void PrepareForStacks() {
  void* frames[1];
  backtrace(frames, 1);
}

std::string StackOf(pid_t thread, absl::Duration patience) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  // The handler stays: the signal may come late, and would end the process without one.
  struct sigaction action = {};
  action.sa_handler = Answer;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // kernel_threads.h
  sigemptyset(&action.sa_mask);
  sigaction(StackSignal(), &action, nullptr);
  question.answered.store(false);
  question.asked.store(thread);
  syscall(SYS_tgkill, getpid(), thread, StackSignal());
  constexpr absl::Duration kPoll = absl::Milliseconds(1);
  for (absl::Duration waited; waited < patience; waited += kPoll) {
    if (question.answered.load(std::memory_order_acquire)) return Describe(question);
    absl::SleepFor(kPoll);
  }
  return DescribeSilent(thread);
}

}  // namespace sluice
