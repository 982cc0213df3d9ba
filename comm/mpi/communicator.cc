#include "comm/mpi/communicator.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/mpi/error.h"
#include "comm/where.h"
#include "models/device/out_of_memory.h"

namespace sluice {
namespace {

// How long a rank that has failed waits for the others to take the news.
constexpr absl::Duration kAbortGrace = absl::Milliseconds(500);
constexpr absl::Duration kLongestNap = absl::Microseconds(500);
constexpr absl::Duration kShortestNap = absl::Microseconds(20);
// Between two looks for lost ranks, and between the look that misses a rank and the next.
constexpr absl::Duration kLook = absl::Milliseconds(80);
constexpr absl::Duration kSecondLook = absl::Milliseconds(10);

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, int rank, int size, const MpiOptions& options,
                                 std::vector<MachineProcess> processes, MpiOutcome* outcome)
    : WireCommunicator({.rank = rank,
                        .size = size,
                        .capacity = options.capacity,
                        .spin = options.spin,
                        .wake = [this] { Wake(); },
                        .health = [this](int peer) { return lost_.Health(peer); }}),
      options_(options),
      comm_(comm),
      outcome_(*outcome),
      requests_(comm, &queue()),
      control_(comm, &queue()),
      lost_(rank, std::move(processes)) {
  outcome_.group_open = true;
  if (size == 1) return;
  const absl::Status started = StartThread(
      "starting the one that exchanges messages", [this] { Run(); }, &thread_);
  if (!started.ok()) GiveUp(started);
}

MpiCommunicator::~MpiCommunicator() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = wake_ = true;
    }
    woken_.notify_one();
    thread_.join();
  }
  if (outcome_.unclean) {
    control_.LeaveMemoryToMpi();
  } else {
    requests_.Clear();
    MPI_Comm_free(&comm_);
  }
  outcome_.group_open = false;
}

void MpiCommunicator::Wake() {
  {
    const std::lock_guard lock(mutex_);
    wake_ = true;
  }
  woken_.notify_one();
}

bool MpiCommunicator::StopIsAsked() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

// No call of MPI follows, so the others learn of it when the job is ended.
void MpiCommunicator::GiveUp(const absl::Status& status) {
  outcome_.unclean = true;
  queue().Fail(status);
  queue().ReleaseMemory();
}

void MpiCommunicator::Run() {
  const absl::Status status = OrExhausted("exchanging messages", [this] {
    Serve();
    return absl::OkStatus();
  });
  if (!status.ok()) GiveUp(status);
}

void MpiCommunicator::Serve() {
  // Naps are short: without this Linux makes each of them 50 us longer.
  (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  control_.Start();
  Instant busy_at = Instant::Now();
  while (!queue().failed() && !StopIsAsked()) {
    bool busy = requests_.StartPosts();
    busy = requests_.FinishMessages() || busy;
    control_.Poll();
    Watch();
    if (busy) busy_at = Instant::Now();
    Rest(busy_at);
  }
  ShutDown();
}

// Sleeps the longer the longer nothing has ended. Polling takes time from whoever computes; but a
// rank that waits leaves its core to this thread, and a long message needs many polls.
void MpiCommunicator::Rest(Instant busy_at) {
  const int part = queue().awaited_peer() != MessageQueue::kNobody ? 32 : 8;
  const absl::Duration nap = std::min((Instant::Now() - busy_at) / part, kLongestNap);
  if (nap < kShortestNap) {
    sched_yield();
    return;
  }
  std::unique_lock lock(mutex_);
  woken_.wait_for(lock, absl::ToChronoMicroseconds(nap), [this] { return wake_; });
  wake_ = false;
}

bool MpiCommunicator::IsToldToStop() const {
  return options_.told_to_stop != nullptr && options_.told_to_stop->load();
}

// Looks, now and then, for what no message tells.
void MpiCommunicator::Watch() {
  const Instant now = Instant::Now();
  const bool told = IsToldToStop();
  if (told && told_to_stop_at_ == Instant::InfiniteFuture()) {
    outcome_.others_end = true;
    told_to_stop_at_ = next_look_ = now;
  }
  if (now < next_look_) return;
  next_look_ = now + (LookForLost() || told ? kSecondLook : kLook);
  // Where all ranks run on this machine, and live, somebody has ended the job and nobody is lost.
  if (told && !lost_.AllAreHere() && now > told_to_stop_at_ + options_.stop_patience) {
    queue().Fail(ToldToStop(rank()));
  }
}

// Returns whether the process of any rank is missing.
bool MpiCommunicator::LookForLost() {
  return lost_.Look([this](int peer) { return !control_.HasHeard(peer); },
                    [this](int peer) {
                      queue().Fail(WithPeer(absl::UnavailableError(absl::StrCat(
                                                "rank ", peer, " is gone (its process has ended)")),
                                            peer));
                    });
}

// Ends all that is under way, whether this rank shuts down or the group has failed.
void MpiCommunicator::ShutDown() {
  bool told_failure = queue().failed();
  control_.Tell(queue().failure());
  requests_.CancelReceives();
  const Instant start = Instant::Now();
  Instant until = start + (told_failure ? kAbortGrace : options_.shutdown_timeout);
  bool done = false;
  while (!done && Instant::Now() < until) {
    done = FinishExchange();
    if (queue().failed() && !told_failure) {  // during the shutdown
      told_failure = true;
      until = Instant::Now() + kAbortGrace;
    }
    if (!done) Rest(start);
  }
  if (done && !lost_.AnyIsLost()) {
    control_.Stop();
  } else {
    outcome_.unclean = true;  // no call of MPI follows, so that it touches no memory from here on
    outcome_.others_end = outcome_.others_end || done;
  }
  queue().ReleaseMemory();
}

// One step of the shutdown; returns whether nothing is left to wait for but ranks that are lost.
bool MpiCommunicator::FinishExchange() {
  (void)requests_.FinishMessages();
  control_.Poll();
  requests_.Drain();
  Watch();
  const bool messages_end = AwaitsOnlyLost();
  if (messages_end) queue().ReleaseMemory();
  const auto is_lost = [this](int peer) { return lost_.IsLost(peer); };
  return messages_end && control_.HasHeardAll(is_lost) && control_.HasToldAll(is_lost);
}

bool MpiCommunicator::AwaitsOnlyLost() const {
  const std::vector<Post>& active = requests_.active();
  return std::all_of(active.begin(), active.end(),
                     [this](const Post& post) { return lost_.IsLost(post.peer); });
}

}  // namespace sluice
