// The only file that knows MPI.
#include "comm/mpi/mpi.h"

#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "comm/machine_process.h"
#include "comm/where.h"
#include "comm/wire_communicator.h"
#include "models/device/wait_until.h"

namespace sluice {
namespace {

constexpr int kExitPeerLost = 5;
// Program and collective messages go under the numbers of their channels.
constexpr int kControlTag = kChannels;
constexpr absl::Duration kAbortGrace = absl::Milliseconds(500);
constexpr absl::Duration kLongestNap = absl::Microseconds(500);
constexpr absl::Duration kShortestNap = absl::Microseconds(20);
// Between two looks for lost ranks; a rank is lost once two looks have missed it, so that its last
// words, which may still be on the way, come first.
constexpr absl::Duration kLook = absl::Milliseconds(80);
constexpr absl::Duration kSecondLook = absl::Milliseconds(10);

absl::Status FromMpi(int code, absl::string_view what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat("MPI: ", what, ": ", text));
}

// What is true of the whole process. Groups are opened and closed by one thread, in turns.
struct Process {
  bool initialised = false;
  bool group_open = false;
  bool unclean = false;     // MPI holds requests that will never end
  bool others_end = false;  // by themselves, or by the launcher's hand
  absl::Duration farewell = absl::Minutes(10);
};
Process& ThisProcess() {
  static Process process;
  return process;
}

// At exit. MPI_Finalize waits for all ranks, and for ever for one that has died.
void Finalise() {
  // Left in the middle of something: its thread is still at work.
  if (ThisProcess().group_open) _exit(kExitPeerLost);
  if (ThisProcess().unclean) {
    // The others have been told; give them a moment to say what they have to say, and mpirun one to
    // pass on what this process has said: it drops what it has not read when the last rank ends.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::fflush(nullptr);
    if (!ThisProcess().others_end) MPI_Abort(MPI_COMM_WORLD, kExitPeerLost);
    _exit(kExitPeerLost);
  }
  std::thread([until = Instant::Now() + ThisProcess().farewell] {
    SleepUntil(until);
    std::fputs("sluice: some ranks of MPI do not end; leaving without them\n", stderr);
    _exit(kExitPeerLost);
  }).detach();
  MPI_Finalize();
}

absl::Status Initialise() {
  if (ThisProcess().initialised) return absl::OkStatus();
  int provided = MPI_THREAD_SINGLE;
  absl::Status status =
      FromMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init");
  if (!status.ok()) return status;
  ThisProcess().initialised = true;
  std::atexit(Finalise);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // The thread that moves messages is not the one that opened the group, so less will not do.
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::UnimplementedError("this MPI allows calls from the main thread only");
  }
  return absl::OkStatus();
}

absl::Status ToldToStop(int rank) {
  return absl::UnavailableError(
      absl::StrCat("rank ", rank, " was told to stop (SIGTERM); another rank of the job was ",
                   "probably lost, or the job was ended"));
}

// Until all processes have come. MPI's own waits burn a core each, which those who still work need.
absl::Status MeetAll(const MpiOptions& options) {
  MPI_Request request = MPI_REQUEST_NULL;
  absl::Status status = FromMpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "barrier");
  for (int done = 0; status.ok() && done == 0;) {
    status = FromMpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "barrier");
    if (options.told_to_stop != nullptr && options.told_to_stop->load()) {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      ThisProcess().unclean = ThisProcess().others_end = true;
      return ToldToStop(rank);
    }
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return status;
}

// Told to every rank by a rank that fails or leaves.
struct Control {
  uint32_t code = 0;  // of the failure; OK: this rank leaves
  uint32_t bytes = 0;
  char text[1000] = {};  // EncodeError
};

// Requests that are under way, and what they are for. MPI wants an array of the handles.
struct Active {
  std::vector<MPI_Request> requests;
  std::vector<Post> posts;
};

// Persistent requests, to be used again when a message with the same place, peer and size is
// posted, as happens every step.
class RequestCache {
 public:
  explicit RequestCache(MPI_Comm comm) : comm_(comm) {}

  int Get(const Post& post, MPI_Request* request) {
    std::vector<MPI_Request>& free = free_[KeyOf(post)];
    if (!free.empty()) {
      *request = free.back();
      free.pop_back();
      --size_;
      return MPI_SUCCESS;
    }
    const int bytes = static_cast<int>(post.bytes);
    if (post.direction == Direction::kSend) {
      return MPI_Send_init(post.data, bytes, MPI_BYTE, post.peer, post.channel, comm_, request);
    }
    return MPI_Recv_init(post.data, bytes, MPI_BYTE, post.peer, post.channel, comm_, request);
  }

  void Put(const Post& post, MPI_Request request) {
    constexpr size_t kMost = 4096;
    if (size_ >= kMost) Clear();
    free_[KeyOf(post)].push_back(request);
    ++size_;
  }

  void Clear() {
    for (auto& [key, requests] : free_) {
      for (MPI_Request& request : requests) MPI_Request_free(&request);
    }
    free_.clear();
    size_ = 0;
  }

 private:
  using Key = std::tuple<Direction, int, int, const char*, size_t>;
  static Key KeyOf(const Post& post) {
    return {post.direction, post.channel, post.peer, post.data, post.bytes};
  }

  MPI_Comm comm_;
  size_t size_ = 0;
  absl::flat_hash_map<Key, std::vector<MPI_Request>> free_;
};

// Messages of an edge may end out of order (a short one before a long one); waiters count.
struct EdgeOrder {
  Ticket next = 0;
  std::vector<Ticket> early;
};

class MpiCommunicator : public WireCommunicator {
 public:
  MpiCommunicator(MPI_Comm comm, int rank, int size, const MpiOptions& options,
                  std::vector<MachineProcess> processes)
      : WireCommunicator({.rank = rank,
                          .size = size,
                          .capacity = options.capacity,
                          .spin = options.spin,
                          .wake = [this] { Wake(); },
                          .health = [this](int peer) { return Health(peer); }}),
        options_(options),
        comm_(comm),
        cache_(comm),
        state_(std::make_unique<State>()),
        processes_(std::move(processes)) {
    state_->outgoing.resize(static_cast<size_t>(size));
    edges_.resize(size_t{2} * kChannels * static_cast<size_t>(size));
    farewells_.resize(static_cast<size_t>(size), false);
    farewells_[static_cast<size_t>(rank)] = true;
    missed_.resize(farewells_.size(), 0);
    ThisProcess().group_open = true;
    ThisProcess().farewell = options.farewell;
    if (size > 1) thread_ = std::thread([this] { Run(); });
  }

  ~MpiCommunicator() override {
    if (thread_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        stop_ = wake_ = true;
      }
      woken_.notify_one();
      thread_.join();
    }
    if (ThisProcess().unclean) {
      (void)state_.release();  // MPI may still write there
    } else {
      cache_.Clear();
      MPI_Comm_free(&comm_);
    }
    ThisProcess().group_open = false;
  }

 private:
  // Memory that MPI's control messages use.
  struct State {
    Control incoming;
    Control message;
    MPI_Request incoming_request = MPI_REQUEST_NULL;
    std::vector<MPI_Request> outgoing;
  };

  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      wake_ = true;
    }
    woken_.notify_one();
  }

  void Run() {
    // Naps are short: without this Linux makes each of them 50 us longer.
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    Expect(MPI_Recv_init(&state_->incoming, sizeof(Control), MPI_BYTE, MPI_ANY_SOURCE, kControlTag,
                         comm_, &state_->incoming_request),
           "control receive");
    Expect(MPI_Start(&state_->incoming_request), "control receive");
    Instant busy_at = Instant::Now();
    while (!desk().failed() && !Stopped()) {
      bool busy = StartPosts();
      busy = FinishMessages() || busy;
      PollControl();
      Watch();
      if (busy) busy_at = Instant::Now();
      Rest(busy_at);
    }
    Leave();
  }

  bool Stopped() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  // Sleeps the longer the longer nothing has ended. Polling takes time from whoever computes; but a
  // rank that waits leaves its core to this thread, and a long message needs many polls.
  void Rest(Instant busy_at) {
    const int part = desk().somebody_waits() ? 32 : 8;
    const absl::Duration nap = std::min((Instant::Now() - busy_at) / part, kLongestNap);
    if (nap < kShortestNap) {
      sched_yield();
      return;
    }
    std::unique_lock lock(mutex_);
    woken_.wait_for(lock, absl::ToChronoMicroseconds(nap), [this] { return wake_; });
    wake_ = false;
  }

  void Expect(int code, absl::string_view what) {
    if (code != MPI_SUCCESS) desk().Fail(FromMpi(code, what));
  }

  bool StartPosts() {
    posts_.clear();
    desk().Take(&posts_);
    for (const Post& post : posts_) Start(post);
    return !posts_.empty();
  }

  void Start(const Post& post) {
    if (post.bytes > INT_MAX) {
      desk().Fail(absl::InvalidArgumentError(
          absl::StrCat("a message of ", post.bytes, " bytes is longer than MPI's 2 GiB")));
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    int code = cache_.Get(post, &request);
    if (code == MPI_SUCCESS) code = MPI_Start(&request);
    if (code != MPI_SUCCESS) {
      Expect(code, absl::StrCat("message with rank ", post.peer));
      return;
    }
    active_.requests.push_back(request);
    active_.posts.push_back(post);
  }

  // Whether anything ended.
  bool FinishMessages() {
    if (active_.requests.empty()) return false;
    const auto count = static_cast<int>(active_.requests.size());
    indices_.resize(active_.requests.size());
    statuses_.resize(active_.requests.size());
    int done = 0;
    const int code =
        MPI_Testsome(count, active_.requests.data(), &done, indices_.data(), statuses_.data());
    if (done == MPI_UNDEFINED || done == 0) {
      Expect(code, "progress");
      return false;
    }
    for (int i = 0; i < done; ++i) {
      const auto index = static_cast<size_t>(indices_[static_cast<size_t>(i)]);
      Finish(active_.posts[index], active_.requests[index], statuses_[static_cast<size_t>(i)],
             code == MPI_ERR_IN_STATUS);
    }
    std::sort(indices_.begin(), indices_.begin() + done, std::greater<>());
    for (int i = 0; i < done; ++i) Remove(static_cast<size_t>(indices_[static_cast<size_t>(i)]));
    return true;
  }

  void Remove(size_t index) {
    active_.requests[index] = active_.requests.back();
    active_.posts[index] = active_.posts.back();
    active_.requests.pop_back();
    active_.posts.pop_back();
  }

  void Finish(const Post& post, MPI_Request request, const MPI_Status& status, bool has_error) {
    cache_.Put(post, request);
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    if (cancelled != 0) return;
    if (post.direction == Direction::kReceive) {
      MPI_Count bytes = 0;
      MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
      if (static_cast<size_t>(bytes) != post.bytes) {
        desk().Fail(
            DifferentSizes(post.ticket, post.peer, rank(), static_cast<size_t>(bytes), post.bytes));
        return;
      }
    }
    if (has_error && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
      Expect(status.MPI_ERROR, absl::StrCat("message ", post.ticket, " with rank ", post.peer));
      return;
    }
    Complete(post);
  }

  void Complete(const Post& post) {
    EdgeOrder& edge = edges_[(static_cast<size_t>(post.direction) * kChannels +
                              static_cast<size_t>(post.channel)) *
                                 static_cast<size_t>(size()) +
                             static_cast<size_t>(post.peer)];
    edge.early.push_back(post.ticket);
    for (auto found = edge.early.begin(); found != edge.early.end();
         found = std::find(edge.early.begin(), edge.early.end(), edge.next)) {
      if (*found != edge.next) continue;
      edge.early.erase(found);
      ++edge.next;
      desk().Complete(post.direction, post.channel, post.peer);
    }
  }

  void PollControl() {
    int arrived = 0;
    MPI_Status status;
    Expect(MPI_Test(&state_->incoming_request, &arrived, &status), "control");
    if (arrived == 0) return;
    const Control& control = state_->incoming;
    farewells_[static_cast<size_t>(status.MPI_SOURCE)] = true;
    if (control.code != 0) {
      desk().Fail(DecodeError(
          control.code,
          absl::string_view(control.text, std::min<size_t>(control.bytes, sizeof(control.text)))));
    }
    Expect(MPI_Start(&state_->incoming_request), "control receive");
  }

  // Looks, once in a while, for what no message tells.
  void Watch() {
    const Instant now = Instant::Now();
    const bool told = options_.told_to_stop != nullptr && options_.told_to_stop->load();
    if (told && told_at_ == Instant::InfiniteFuture()) {
      ThisProcess().others_end = true;
      told_at_ = next_look_ = now;
    }
    if (now < next_look_) return;
    next_look_ = now + (LookForLost() || told ? kSecondLook : kLook);
    // Where all ranks are here, and live, the job is to end, and nobody is lost.
    if (told && !AllAreHere() && now > told_at_ + options_.stop_patience) {
      desk().Fail(ToldToStop(rank()));
    }
  }

  const MachineProcess& ProcessOf(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  bool IsHere(int peer) const { return SameMachine(ProcessOf(rank()), ProcessOf(peer)); }
  bool IsLost(int peer) const { return missed_[static_cast<size_t>(peer)] >= 2; }
  bool AllAreHere() const {
    for (int peer = 0; peer < size(); ++peer) {
      if (!IsHere(peer)) return false;
    }
    return true;
  }

  // For errors about a message that is late: the ranks that may be why, whoever was waited for.
  PeerHealth Health(int peer) const {
    PeerHealth health{"", peer};
    for (int other = 0; other < size(); ++other) {
      if (!IsHere(other) || !IsStopped(ProcessOf(other))) continue;
      if (health.words.empty()) health.suspect = other;
      absl::StrAppend(&health.words, health.words.empty() ? " (" : ", ", "rank ", other,
                      " is stopped");
    }
    if (!health.words.empty()) health.words += ")";
    return health;
  }

  // Whether a rank may be lost.
  bool LookForLost() {
    bool missing = false;
    for (int peer = 0; peer < size(); ++peer) {
      const auto index = static_cast<size_t>(peer);
      if (farewells_[index] || !IsHere(peer) || !HasEnded(ProcessOf(peer))) continue;
      missing = true;
      if (++missed_[index] < 2) continue;
      desk().Fail(WithPeer(
          absl::UnavailableError(absl::StrCat("rank ", peer, " is gone (its process has ended)")),
          peer));
    }
    return missing;
  }

  // Ends all that is under way, whether this rank leaves or the group has failed.
  void Leave() {
    bool told_failure = desk().failed();
    Tell(desk().failure());
    for (size_t i = 0; i < active_.posts.size(); ++i) {
      if (active_.posts[i].direction == Direction::kReceive) MPI_Cancel(&active_.requests[i]);
    }
    Instant until = Instant::Now() + (told_failure ? kAbortGrace : options_.farewell);
    const Instant start = Instant::Now();
    bool done = false;
    while (!done && Instant::Now() < until) {
      (void)FinishMessages();
      PollControl();
      Drain();
      Watch();
      if (OnlyLostAreAwaited()) desk().LetGo();
      if (desk().failed() && !told_failure) {  // while leaving
        told_failure = true;
        until = Instant::Now() + kAbortGrace;
      }
      done = OnlyLostAreAwaited() && EverybodyLeaves() && ToldAll();
      if (!done) Rest(start);
    }
    if (done && !AnyIsLost()) {
      MPI_Cancel(&state_->incoming_request);
      MPI_Wait(&state_->incoming_request, MPI_STATUS_IGNORE);
      MPI_Request_free(&state_->incoming_request);
    } else {
      ThisProcess().unclean = true;  // and no call of MPI from here on, so no memory is touched
      ThisProcess().others_end = ThisProcess().others_end || done;
    }
    desk().LetGo();
  }

  void Tell(const absl::Status& status) {
    Control& control = state_->message;
    control.code = static_cast<uint32_t>(status.code());
    const std::string error = EncodeError(status, sizeof(control.text) - kLongestWhere);
    control.bytes = static_cast<uint32_t>(std::min(error.size(), sizeof(control.text)));
    std::copy_n(error.begin(), control.bytes, control.text);
    for (int peer = 0; peer < size(); ++peer) {
      MPI_Request& request = state_->outgoing[static_cast<size_t>(peer)];
      request = MPI_REQUEST_NULL;
      if (peer == rank()) continue;
      MPI_Isend(&control, sizeof(Control), MPI_BYTE, peer, kControlTag, comm_, &request);
    }
  }

  // All but the lost ones, of which nothing will ever be heard.
  bool ToldAll() {
    int done = 0;
    for (int peer = 0; peer < size(); ++peer) {
      int told = 0;
      MPI_Test(&state_->outgoing[static_cast<size_t>(peer)], &told, MPI_STATUS_IGNORE);
      if (told != 0 || IsLost(peer)) ++done;
    }
    return done == size();
  }

  bool EverybodyLeaves() const {
    for (int peer = 0; peer < size(); ++peer) {
      if (!farewells_[static_cast<size_t>(peer)] && !IsLost(peer)) return false;
    }
    return true;
  }

  bool OnlyLostAreAwaited() const {
    return std::all_of(active_.posts.begin(), active_.posts.end(),
                       [this](const Post& post) { return IsLost(post.peer); });
  }

  bool AnyIsLost() const {
    return std::any_of(missed_.begin(), missed_.end(), [](int looks) { return looks >= 2; });
  }

  // Takes messages that no receive will ever take, so that their senders can end.
  void Drain() {
    for (int channel = 0; channel < kChannels; ++channel) {
      int there = 0;
      MPI_Message message;
      MPI_Status status;
      while (MPI_Improbe(MPI_ANY_SOURCE, channel, comm_, &there, &message, &status) ==
                 MPI_SUCCESS &&
             there != 0) {
        int bytes = 0;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        scratch_.resize(static_cast<size_t>(bytes));
        MPI_Mrecv(scratch_.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
      }
    }
  }

  const MpiOptions options_;
  MPI_Comm comm_;
  std::mutex mutex_;  // guards the next three
  std::condition_variable woken_;
  bool wake_ = false;
  bool stop_ = false;
  // The thread's own.
  RequestCache cache_;
  std::unique_ptr<State> state_;
  Active active_;
  std::vector<Post> posts_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<EdgeOrder> edges_;                 // [direction][channel][peer]
  std::vector<bool> farewells_;                  // heard, by rank
  const std::vector<MachineProcess> processes_;  // of the ranks
  std::vector<int> missed_;                      // looks that did not find a rank's process
  Instant next_look_ = Instant::InfinitePast();
  Instant told_at_ = Instant::InfiniteFuture();  // to stop
  std::vector<char> scratch_;
  std::thread thread_;
};

// Of every rank of `comm`.
std::vector<MachineProcess> GatherProcesses(MPI_Comm comm, int size) {
  const MachineProcess mine = ThisMachineProcess();
  std::vector<MachineProcess> all(static_cast<size_t>(size));
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, comm);
  return all;
}

}  // namespace

std::string MpiLibrary() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text);
  return whole.substr(0, whole.find(','));  // the rest is about how it was built
}

absl::StatusOr<std::unique_ptr<Communicator>> OpenMpi(const MpiOptions& options) {
  if (ThisProcess().group_open) {
    return absl::FailedPreconditionError("one group of MPI at a time: close the other one first");
  }
  if (absl::Status met = Initialise(); !met.ok()) return met;
  if (absl::Status met = MeetAll(options); !met.ok()) return met;
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  const bool member = options.ranks == 0 || world_rank < options.ranks;
  MPI_Comm comm = MPI_COMM_NULL;
  absl::Status status = FromMpi(
      MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, world_rank, &comm), "new group");
  if (!status.ok()) return status;
  if (!member) return std::unique_ptr<Communicator>();
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (options.ranks > size) {
    return absl::InvalidArgumentError(
        absl::StrCat("MPI started ", size, " processes, not ", options.ranks));
  }
  return std::make_unique<MpiCommunicator>(comm, rank, size, options, GatherProcesses(comm, size));
}

}  // namespace sluice
