#include "comm/local/in_process.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/local/fifo_edge.h"
#include "comm/message_failpoint.h"
#include "models/device/wait_until.h"

namespace sluice {

// What all ranks of the group use: the edges, and one slot per rank for collectives.
struct InProcessGroup::Shared {
  Shared(int rank_count, size_t capacity, absl::Duration spin)
      : ranks(rank_count), slots(rank_count) {
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) {
        edges.push_back(std::make_unique<FifoEdge>(from, to, capacity, spin));
      }
    }
  }
  FifoEdge& edge(int from, int to) { return *edges[static_cast<size_t>(from) * ranks + to]; }

  // Returns when all ranks have arrived. The last to arrive starts the next generation.
  absl::Status Meet(int rank, Instant deadline) {
    std::unique_lock lock(mutex);
    if (!failure.ok()) return failure;
    const uint64_t mine = generation;
    if (++arrived == ranks) {
      arrived = 0;
      ++generation;
      changed.notify_all();
      return absl::OkStatus();
    }
    if (!WaitUntil(changed, lock, deadline,
                   [this, mine] { return generation != mine || !failure.ok(); })) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", rank,
                                                      " waited for all ranks, but only ", arrived,
                                                      " of ", ranks, " came in time"));
    }
    return generation != mine ? absl::OkStatus() : failure;
  }

  // Ends this group's calls. Under the lock, so that whoever learns of the failure in Meet finds every
  // edge closed.
  void End(const absl::Status& status) {
    const std::lock_guard lock(mutex);
    if (!failure.ok()) return;
    failure = status;
    changed.notify_all();
    for (auto& edge : edges) edge->Abort(status);
  }

  const int ranks;
  std::vector<std::unique_ptr<FifoEdge>> edges;
  Shared* other = nullptr;  // of the foreground the background's, and the other way round
  std::mutex mutex;         // guards what follows, up to `failure`
  std::condition_variable changed;
  uint64_t generation = 0;
  int arrived = 0;
  absl::Status failure;
  // What each rank brings to an AllGather, kept here since a rank may leave one that fails while
  // others still read. No rank changes its own before all have met again.
  std::vector<std::vector<double>> slots;
};

namespace {

template <typename Shared>
class InProcessCommunicator : public Communicator {
 public:
  // `background`: null for a communicator that is one.
  InProcessCommunicator(Shared* shared, int rank, Communicator* background)
      : shared_(shared), rank_(rank), background_(background) {}
  int rank() const override { return rank_; }
  int size() const override { return shared_->ranks; }

  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override {
    if (absl::Status status = HitMessage("send"); !status.ok()) return status;
    return Settled(shared_->edge(rank_, to).PostSend(data, bytes, ticket));
  }
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override {
    if (absl::Status status = HitMessage("receive"); !status.ok()) return status;
    return Settled(shared_->edge(from, rank_).PostReceive(data, bytes, ticket));
  }
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override {
    if (absl::Status status = HitMessage("wait"); !status.ok()) return status;
    return Settled(shared_->edge(rank_, to).Wait(ticket, deadline));
  }
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    if (absl::Status status = HitMessage("wait"); !status.ok()) return status;
    return Settled(shared_->edge(from, rank_).Wait(ticket, deadline));
  }

  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    if (absl::Status status = HitMessage("meet"); !status.ok()) return status;
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->slots[static_cast<size_t>(rank_)].assign(mine.begin(), mine.end());
    }
    if (absl::Status status = shared_->Meet(rank_, deadline); !status.ok()) return status;
    absl::Status sizes = CopySlots(mine, all);
    absl::Status left = shared_->Meet(rank_, deadline);
    return sizes.ok() ? left : sizes;
  }

  absl::Status Barrier(Instant deadline) override {
    if (absl::Status status = HitMessage("meet"); !status.ok()) return status;
    return shared_->Meet(rank_, deadline);
  }

  void Abort(const absl::Status& status) override {
    shared_->End(status);
    shared_->other->End(failure());  // the first one, which may be another
  }
  Communicator* background() override { return background_; }
  absl::Status failure() const override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->failure;
  }

 private:
  absl::Status CopySlots(absl::Span<const double> mine, absl::Span<double> all) {
    const std::lock_guard lock(shared_->mutex);
    for (int r = 0; r < size(); ++r) {
      const std::vector<double>& theirs = shared_->slots[static_cast<size_t>(r)];
      if (theirs.size() != mine.size() || all.size() != mine.size() * size()) {
        return absl::InternalError(absl::StrCat("all-gather: rank ", rank_, " brought ",
                                                mine.size(), " values for ", all.size(),
                                                " places, rank ", r, " brought ", theirs.size()));
      }
      std::copy(theirs.begin(), theirs.end(),
                all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * r);
    }
    return absl::OkStatus();
  }

  // Whoever learns of a failure may go on to free its messages: not before Abort, which holds the
  // lock, has seen the end of every copy.
  absl::Status Settled(absl::Status status) {
    if (!status.ok()) const std::lock_guard lock(shared_->mutex);
    return status;
  }

  Shared* shared_;
  int rank_;
  Communicator* background_;
};

}  // namespace

InProcessGroup::InProcessGroup(int ranks, size_t capacity, absl::Duration spin)
    : shared_(std::make_unique<Shared>(ranks, capacity, spin)),
      shared_background_(std::make_unique<Shared>(ranks, capacity, absl::ZeroDuration())) {
  shared_->other = shared_background_.get();
  shared_background_->other = shared_.get();
  for (int r = 0; r < ranks; ++r) {
    background_.push_back(
        std::make_unique<InProcessCommunicator<Shared>>(shared_background_.get(), r, nullptr));
    communicators_.push_back(std::make_unique<InProcessCommunicator<Shared>>(
        shared_.get(), r, background_.back().get()));
  }
}

InProcessGroup::~InProcessGroup() = default;

Communicator& InProcessGroup::communicator(int rank) { return *communicators_[rank]; }

}  // namespace sluice
