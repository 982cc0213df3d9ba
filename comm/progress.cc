#include "comm/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace sluice {

void ProgressBoard::ForEach(absl::FunctionRef<void(const Progress&)> look) const {
  const std::lock_guard lock(mutex_);
  for (const Progress* thread : threads_) look(*thread);
}

Progress::Progress(ProgressBoard* board, int rank, std::function<Where()> where)
    : board_(*board),
      rank_(rank),
      is_ranks_own_(true),
      where_(std::move(where)),
      thread_(gettid()) {
  Join();
}

Progress::Progress(const Progress& of_rank, const char* doing)
    : board_(of_rank.board_),
      rank_(of_rank.rank_),
      is_ranks_own_(false),
      where_([rank = of_rank.rank_] { return Where{.rank = rank}; }),
      thread_(gettid()),
      begun_(true),
      doing_(doing) {
  Join();
}

void Progress::Join() {
  const std::lock_guard lock(board_.mutex_);
  id_ = ++board_.added_;
  board_.threads_.push_back(this);
}

Progress::~Progress() {
  const std::lock_guard lock(board_.mutex_);
  board_.threads_.erase(std::find(board_.threads_.begin(), board_.threads_.end(), this));
}

std::optional<Instant> Progress::waits_until() const {
  const int64_t until = wait_until_.load(kRelaxed);
  if (until == kNoWait) return std::nullopt;
  return until == INT64_MAX ? Instant::InfiniteFuture() : Instant() + absl::Nanoseconds(until);
}

Progress::Waiting::Waiting(Progress* progress, Instant deadline) : progress_(progress) {
  if (progress_ == nullptr) return;
  before_ = progress_->wait_until_.load(kRelaxed);
  progress_->wait_until_.store(absl::ToInt64Nanoseconds(deadline - Instant()), kRelaxed);
}

Progress::Waiting::~Waiting() {
  if (progress_ == nullptr) return;
  progress_->Step();
  progress_->wait_until_.store(before_, kRelaxed);
}

Progress::Phase::Phase(Progress* progress, const char* doing) : progress_(progress) {
  if (progress_ != nullptr) before_ = progress_->doing_.exchange(doing, kRelaxed);
}

Progress::Phase::~Phase() {
  if (progress_ == nullptr) return;
  progress_->doing_.store(before_, kRelaxed);
  progress_->Step();
}

}  // namespace sluice
