#include "comm/tcp/tcp.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/tcp/diagnosis.h"
#include "comm/tcp/rendezvous/rendezvous.h"
#include "comm/tcp/tcp_peer.h"
#include "comm/wire_communicator.h"
#include "models/device/out_of_memory.h"
#include "models/device/wait_until.h"

namespace sluice {
namespace {

// How long a rank that has failed waits for the others to say that they know.
constexpr absl::Duration kAbortGrace = absl::Milliseconds(500);

class TcpCommunicator : public WireCommunicator {
 public:
  TcpCommunicator(const Launch& launch, const TcpOptions& options)
      : WireCommunicator({.rank = launch.rank,
                          .size = launch.size,
                          .capacity = options.capacity,
                          .spin = options.spin,
                          .wake = [this] { Wake(); },
                          .health = [this](int peer) { return Health(peer); }}),
        options_(options),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  ~TcpCommunicator() override {
    if (!thread_.joinable()) return;
    stop_.store(true, std::memory_order_release);
    Wake();
    thread_.join();
  }

  absl::Status Start(std::vector<TcpLink> links) {
    if (!epoll_.valid() || !event_.valid()) return absl::ResourceExhaustedError(ErrnoText(errno));
    for (int r = 0; r < size(); ++r) {
      watched_.emplace_back();
      peers_.push_back(r == rank() ? nullptr
                                   : std::make_unique<TcpPeer>(&queue(), r, std::move(links[r])));
    }
    if (size() == 1) return absl::OkStatus();  // nobody to serve
    epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeKey}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event) != 0) {
      return absl::ResourceExhaustedError(ErrnoText(errno));
    }
    return StartThread(
        "starting the one that exchanges messages", [this] { Run(); }, &thread_);
  }

  bool KnowsOfFailure(int peer, Instant deadline) const override {
    if (peer == rank()) return true;
    const TcpPeer& other = *peers_[static_cast<size_t>(peer)];
    std::unique_lock lock(heard_mutex_);
    WaitUntil(heard_, lock, deadline,
              [&other] { return other.word_of_failure() != TcpPeer::Word::kAwaited; });
    return other.word_of_failure() == TcpPeer::Word::kKnows;
  }

 private:
  static constexpr uint64_t kWakeKey = ~uint64_t{0};
  // Events that a peer's two sockets are registered for; 0 where they are not.
  struct Watched {
    uint32_t control = 0, data = 0;
  };

  void Wake() {
    if (wake_pending_.exchange(true, std::memory_order_acq_rel)) return;
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof(one));
  }

  // For errors about a message from or to `late`; called by the rank's thread.
  PeerHealth Health(int late) const {
    std::vector<RankHealth> ranks;
    for (const auto& peer : peers_) {
      ranks.push_back(peer == nullptr ? RankHealth() : peer->health());
    }
    return DescribeLate(rank(), late, ranks, options_.heartbeat);
  }

  void SendHeartbeats() {
    const int awaited = queue().awaited_peer();
    const bool waits_for_peer = awaited != MessageQueue::kNobody && awaited != rank();
    const absl::Duration silence = waits_for_peer
                                       ? peers_[static_cast<size_t>(awaited)]->health().silence
                                       : absl::ZeroDuration();
    ForEachPeer(
        [&](TcpPeer& peer) { peer.SendHeartbeat(waits_for_peer ? awaited : kNoRank, silence); });
  }

  // Where memory runs out, the others are told as of every failure, with what memory is left. If it
  // runs out again, they learn of it when the connections end.
  void Run() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const absl::Status status = OrExhausted("exchanging messages", [this] {
        Serve();
        return absl::OkStatus();
      });
      if (status.ok()) return;
      queue().Fail(status);
    }
    queue().ReleaseMemory();
  }

  void Serve() {
    Instant next_heartbeat = Instant::Now() + options_.heartbeat;
    while (true) {
      for (const auto& peer : peers_) {
        if (peer != nullptr) Watch(*peer);
      }
      Await(shutting_down_ ? std::min(next_heartbeat, shutdown_deadline_) : next_heartbeat);
      TakePosts();
      if (queue().failed() && !told_) TellFailure();
      if (Instant::Now() >= next_heartbeat) {
        SendHeartbeats();
        next_heartbeat = Instant::Now() + options_.heartbeat;
      }
      if (stop_.load(std::memory_order_acquire) && !shutting_down_) StartShutdown();
      ForEachPeer([](TcpPeer& peer) { peer.Write(); });
      if (shutting_down_ && (AllHaveShutDown() || Instant::Now() >= shutdown_deadline_)) break;
    }
    queue().ReleaseMemory();
  }

  void Await(Instant until) {
    constexpr int kEvents = 64;
    epoll_event events[kEvents];
    const int count = epoll_wait(epoll_.get(), events, kEvents, PollMilliseconds(until));
    for (int i = 0; i < count; ++i) {
      const uint64_t key = events[i].data.u64;
      if (key == kWakeKey) {
        uint64_t posts = 0;
        (void)!read(event_.get(), &posts, sizeof(posts));
        continue;
      }
      if ((events[i].events & ~static_cast<uint32_t>(EPOLLOUT)) == 0) continue;
      TcpPeer& peer = *peers_[key / 2];
      if (key % 2 == 0) {
        peer.ReadControl();
      } else {
        peer.ReadData();
      }
    }
    if (queue().failed()) {
      const std::lock_guard lock(heard_mutex_);  // whoever waits has not looked yet, or sleeps
      heard_.notify_all();
    }
  }

  void TakePosts() {
    // Before the look at the queue: whoever posts after it wakes this thread again.
    wake_pending_.store(false, std::memory_order_release);
    posts_.clear();
    queue().Take(&posts_);
    for (const Post& post : posts_) peers_[static_cast<size_t>(post.peer)]->Take(post);
  }

  void TellFailure() {
    const absl::Status status = queue().failure();
    ForEachPeer([&status](TcpPeer& peer) { peer.Fail(status); });
    queue().ReleaseMemory();
    told_ = true;  // only now: where memory runs out on the way, the next attempt tells it
    if (shutting_down_)
      shutdown_deadline_ = std::min(shutdown_deadline_, Instant::Now() + kAbortGrace);
  }

  void StartShutdown() {
    shutting_down_ = true;
    shutdown_deadline_ = Instant::Now() + (told_ ? kAbortGrace : options_.shutdown_timeout);
    ForEachPeer([](TcpPeer& peer) { peer.StartShutdown(); });
  }

  bool AllHaveShutDown() const {
    return std::all_of(peers_.begin(), peers_.end(),
                       [](const auto& peer) { return peer == nullptr || peer->HasShutDown(); });
  }

  template <typename Call>
  void ForEachPeer(const Call& call) {
    for (const auto& peer : peers_) {
      if (peer != nullptr) call(*peer);
    }
  }

  void Watch(const TcpPeer& peer) {
    Watched& now = watched_[static_cast<size_t>(peer.rank())];
    const uint64_t key = 2 * static_cast<uint64_t>(peer.rank());
    Register(peer.link().control.socket(), key,
             (peer.wants_to_read_control() ? EPOLLIN : 0U) |
                 (peer.wants_to_write_control() ? EPOLLOUT : 0U),
             &now.control);
    Register(
        peer.link().data.socket(), key + 1,
        (peer.wants_to_read_data() ? EPOLLIN : 0U) | (peer.wants_to_write_data() ? EPOLLOUT : 0U),
        &now.data);
  }

  void Register(const Descriptor& socket, uint64_t key, uint32_t events, uint32_t* now) {
    if (events == *now) return;
    epoll_event event{.events = events, .data = {.u64 = key}};
    const int action = *now == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    if (epoll_ctl(epoll_.get(), action, socket.get(), &event) == 0) *now = events;
  }

  const TcpOptions options_;
  const Descriptor epoll_, event_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> wake_pending_{false};
  // Made before the thread starts, and its own from then on.
  std::vector<std::unique_ptr<TcpPeer>> peers_;
  std::vector<Watched> watched_;
  std::vector<Post> posts_;
  // Of what peers say of a failure.
  mutable std::mutex heard_mutex_;
  mutable std::condition_variable heard_;
  bool told_ = false;           // of the failure
  bool shutting_down_ = false;  // this rank leaves
  Instant shutdown_deadline_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> OpenTcp(const Launch& launch,
                                                      const TcpOptions& options,
                                                      Descriptor listener) {
  absl::StatusOr<std::vector<TcpLink>> links =
      MeetRanks(launch, options.secret, options.timeout, std::move(listener));
  if (!links.ok()) return links.status();
  auto communicator = std::make_unique<TcpCommunicator>(launch, options);
  if (absl::Status status = communicator->Start(*std::move(links)); !status.ok()) return status;
  return communicator;
}

}  // namespace sluice
