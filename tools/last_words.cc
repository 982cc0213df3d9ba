#include "tools/last_words.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/time/clock.h"
#include "tools/command.h"

namespace sluice {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

LastWords::LastWords(const Communicator& group, const std::atomic<bool>& told_to_stop,
                     absl::Duration patience, std::function<void(const absl::Status&)> speak)
    : group_(group),
      told_to_stop_(told_to_stop),
      patience_(patience),
      speak_(std::move(speak)),
      thread_([this] { Run(); }) {}

LastWords::~LastWords() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void LastWords::Run() {
  absl::Time told = absl::InfiniteFuture();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, absl::ToChronoMilliseconds(kLook), [this] { return done_; })) {
    if (!told_to_stop_.load()) continue;
    told = std::min(told, absl::Now());
    const absl::Status failure = group_.failure();
    if (failure.ok() || absl::Now() < told + patience_) continue;
    speak_(failure);
    std::fflush(nullptr);
    _exit(kExitPeerLost);
  }
}

}  // namespace sluice
