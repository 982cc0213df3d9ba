#include "pipeline/state/rounds.h"

#include <algorithm>
#include <future>
#include <optional>
#include <vector>

#include "comm/progress.h"
#include "models/device/wait_until.h"

namespace sluice {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);

}  // namespace

Rounds::Rounds(Communicator* world, absl::Duration timeout)
    : world_(*world),
      timeout_(timeout),
      period_(std::min(kPeriod, timeout / 4)),
      next_(Instant::Now() + period_) {}

absl::Status Rounds::Tick() { return Instant::Now() < next_ ? absl::OkStatus() : Meet(/*done=*/0); }

absl::Status Rounds::Meet(double done) {
  done_.resize(static_cast<size_t>(world_.size()));
  absl::Status status =
      world_.AllGather({&done, 1}, absl::MakeSpan(done_), Instant::Now() + timeout_);
  all_done_ = std::all_of(done_.begin(), done_.end(), [](double rank) { return rank >= 1; });
  next_ = Instant::Now() + period_;
  return status;
}

// After a wait until next_.
absl::Status Rounds::MeetIfLate(const absl::Status& waited) {
  return absl::IsDeadlineExceeded(waited) ? Meet(/*done=*/0) : waited;
}

absl::Status Rounds::WaitSend(int to, Ticket ticket) {
  for (;;) {
    absl::Status waited = world_.WaitSend(to, ticket, next_);
    if (waited.ok()) return waited;
    if (absl::Status status = MeetIfLate(waited); !status.ok()) return status;
  }
}

absl::Status Rounds::WaitReceive(int from, Ticket ticket) {
  for (;;) {
    absl::Status waited = world_.WaitReceive(from, ticket, next_);
    if (waited.ok()) return waited;
    if (absl::Status status = MeetIfLate(waited); !status.ok()) return status;
  }
}

absl::Status Rounds::Do(const std::function<absl::Status()>& work) {
  std::future<absl::Status> done = std::async(std::launch::async, work);
  while (done.wait_for(TimeUntil(next_)) != std::future_status::ready) {
    if (absl::Status status = Tick(); !status.ok()) return status;
  }
  return done.get();
}

absl::Status Rounds::DoInPieces(const char* doing, const Pieces& work) {
  return Do([&] {
    std::optional<Progress> progress;
    if (world_.progress() != nullptr) progress.emplace(*world_.progress(), doing);
    return work([&] {
      if (progress.has_value()) progress->Step();
      return world_.failure();
    });
  });
}

absl::Status Rounds::Finish() {
  std::vector<double> words;
  return Finish(/*word=*/0, &words);
}

absl::Status Rounds::Finish(double word, std::vector<double>* words) {
  absl::Status status = absl::OkStatus();
  while (status.ok() && !all_done_) status = Meet(1 + word);
  *words = done_;
  for (double& of_rank : *words) --of_rank;
  return status;
}

}  // namespace sluice
