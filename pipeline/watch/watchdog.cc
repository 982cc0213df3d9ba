#include "pipeline/watch/watchdog.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/where.h"
#include "models/device/out_of_memory.h"
#include "pipeline/watch/thread_stack.h"

namespace sluice {
namespace {

// All of these together are less than a second, by which the time-out may be exceeded.
constexpr absl::Duration kLook = absl::Milliseconds(50);
// How long a wait may go on after its deadline, or after the run has failed. A healthy rank needs
// microseconds; a loaded machine may not let it run for a while.
constexpr absl::Duration kGrace = absl::Milliseconds(500);
constexpr absl::Duration kForStack = absl::Milliseconds(150);
constexpr absl::Duration kForTelling = absl::Milliseconds(100);

std::string Seconds(absl::Duration time) {
  return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(time));
}

}  // namespace

Watchdog::Watchdog(absl::Duration timeout, Communicator* world, OnHang on_hang)
    : timeout_(timeout), world_(*world), on_hang_(std::move(on_hang)) {
  PrepareForStacks();
  // Without it the run goes on all the same.
  StartThread(
      "watching the ranks", [this] { Run(); }, &thread_)
      .IgnoreError();
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (teller_.joinable()) teller_.join();
}

void Watchdog::Run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, absl::ToChronoMilliseconds(kLook), [this] { return done_; })) {
    lock.unlock();
    hang_ = Look();
    if (hang_.has_value()) {
      Tell(hang_->status);
      return on_hang_(*hang_);
    }
    lock.lock();
  }
}

std::optional<Hang> Watchdog::Look() {
  const Instant now = Instant::Now();
  if (failure_.ok()) {
    failure_ = world_.failure();
    failed_ = now;
  }
  std::optional<Hang> hang;
  absl::Duration longest = -absl::InfiniteDuration();
  board_.ForEach([&](const Progress& thread) {
    const std::optional<absl::Duration> time = HungFor(thread, now);
    if (time.has_value()) longest = std::max(longest, *time);
  });
  if (longest < absl::ZeroDuration()) return hang;
  // The others may only wait for the one that has hung for longest.
  board_.ForEach([&](const Progress& thread) {
    if (!hang.has_value() && HungFor(thread, now) == longest) hang = Describe(thread, longest);
  });
  return hang;
}

std::optional<absl::Duration> Watchdog::HungFor(const Progress& thread, Instant now) {
  const auto [entry, is_new] = seen_.try_emplace(thread.id());
  Seen& seen = entry->second;
  const uint64_t steps = thread.steps();
  if (is_new || seen.steps != steps) seen = {steps, now};
  const absl::Duration quiet = now - seen.since;
  const std::optional<Instant> waits_until = thread.waits_until();
  const bool for_own_thread = waits_until == Instant::InfiniteFuture();
  if (for_own_thread) return std::nullopt;
  // It would have learnt of the failure by any call of its communicator.
  const bool awaited = absl::IsDeadlineExceeded(failure_) && thread.is_ranks_own() &&
                       !thread.informed() && seen.since <= failed_;
  if (awaited && now - failed_ >= kGrace) return quiet;
  if (!thread.begun()) return std::nullopt;
  // A wait may begin after its deadline, where what is waited for may have come: on a loaded machine
  // long after it.
  const bool hangs =
      waits_until.has_value() ? std::min(now - *waits_until, quiet) >= kGrace : quiet >= timeout_;
  return hangs ? std::make_optional(quiet) : std::nullopt;
}

Hang Watchdog::Describe(const Progress& thread, absl::Duration time) const {
  const Where where = thread.where();
  const char* const doing = thread.doing();
  std::string text = "hangs";
  if (where.action.empty() && doing != nullptr) absl::StrAppend(&text, " while it ", doing);
  absl::StrAppend(&text,
                  thread.waits_until().has_value() ? ", in a wait whose deadline has passed" : "",
                  "; it has not got on for ", Seconds(time),
                  "; its stack, innermost first: ", StackOf(thread.thread(), kForStack));
  if (!failure_.ok()) absl::StrAppend(&text, "; before, the run failed: ", DescribeError(failure_));
  const absl::StatusCode code =
      failure_.ok() ? absl::StatusCode::kDeadlineExceeded : failure_.code();
  return {WithWhere(absl::Status(code, text), where), thread.rank(), !failure_.ok()};
}

// Abort waits for the end of copies, which the thread that hangs may be in.
void Watchdog::Tell(const absl::Status& status) {
  const auto tell = [this, &status] {
    world_.Abort(status);
    told_.set_value();
  };
  if (!StartThread("telling the ranks", tell, &teller_).ok()) return;
  told_.get_future().wait_for(absl::ToChronoMilliseconds(kForTelling));
}

}  // namespace sluice
