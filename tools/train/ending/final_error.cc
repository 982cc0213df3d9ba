#include "tools/train/ending/final_error.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/device/instant.h"
#include "tools/command.h"

namespace sluice {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

}  // namespace

FinalErrorPrinter::FinalErrorPrinter(std::function<absl::Status()> failure,
                                     std::function<bool()> told_to_stop, absl::Duration patience,
                                     std::function<void(const absl::Status&)> print)
    : failure_(std::move(failure)),
      told_to_stop_(std::move(told_to_stop)),
      patience_(patience),
      print_(std::move(print)),
      thread_([this] { Run(); }) {}

FinalErrorPrinter::~FinalErrorPrinter() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FinalErrorPrinter::Run() {
  Instant told = Instant::InfiniteFuture();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, absl::ToChronoMilliseconds(kPollInterval),
                            [this] { return done_; })) {
    if (!told_to_stop_()) continue;
    told = std::min(told, Instant::Now());
    const absl::Status failure = failure_();
    if (failure.ok() || Instant::Now() < told + patience_) continue;
    print_(failure);
    std::fflush(nullptr);
    // The name that FirstOfSiblings takes stays taken until all siblings have asked for it.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    _exit(kExitPeerLost);
  }
}

bool FirstOfSiblings() {
  // A name in the abstract space of Unix sockets, which is free again when its owner ends.
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  const std::string text = absl::StrCat("sluice ranks of ", getppid());
  text.copy(name.sun_path + 1, sizeof(name.sun_path) - 1);
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return true;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(file, reinterpret_cast<const sockaddr*>(&name), bytes) == 0) return true;  // kept open
  close(file);
  return false;
}

}  // namespace sluice
