#include "pipeline/train/background_save.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "models/kernels/kernel_threads.h"

namespace sluice {
namespace {

// Only this thread (Linux gives each a priority and cores of its own). Where the rank keeps to one
// core, this thread may use all that the process may. Refusals cost speed only.
void TakeSpareTime() {
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, 0, kLowest);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(getpid(), sizeof(cores), &cores) == 0)
    sched_setaffinity(0, sizeof(cores), &cores);
}

}  // namespace

BackgroundSave::BackgroundSave(Save save)
    : outcome_(absl::UnknownError("a save that has not ended")),
      thread_([this, save = std::move(save)] { Run(save); }) {}

BackgroundSave::~BackgroundSave() { thread_.join(); }

void BackgroundSave::Run(const Save& save) {
  TakeSpareTime();
  const KernelThreads one(1);
  const auto on_read = [this] {
    const std::lock_guard lock(mutex_);
    read_ = true;
    changed_.notify_all();
  };
  absl::StatusOr<SaveOutcome> outcome = save(on_read);
  const std::lock_guard lock(mutex_);
  outcome_ = std::move(outcome);
  read_ = done_ = true;
  changed_.notify_all();
}

bool BackgroundSave::has_read() const {
  const std::lock_guard lock(mutex_);
  return read_;
}

void BackgroundSave::AwaitRead() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return read_; });
}

bool BackgroundSave::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

absl::StatusOr<SaveOutcome> BackgroundSave::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  return outcome_;
}

}  // namespace sluice
