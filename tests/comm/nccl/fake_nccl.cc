#include "tests/comm/nccl/fake_nccl.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>

#include "absl/time/clock.h"
#include "tests/models/fake_device.h"

namespace sluice {

struct FakeNccl::Wire {
  struct Half {
    void* data = nullptr;
    size_t bytes = 0;
    bool done = false;
  };

  // On a stream's thread: waits until the other half has come, or this end is aborted.
  void Meet(int rank, Half* half) {
    std::unique_lock lock(mutex);
    if (aborted[rank]) return;
    halves[rank].push_back(half);
    if (!halves[1 - rank].empty()) {
      Half* send = halves[0].front();
      Half* receive = halves[1].front();
      EXPECT_EQ(send->bytes, receive->bytes);
      if (send->bytes == receive->bytes && send->bytes > 0)
        std::memcpy(receive->data, send->data, send->bytes);
      for (auto& queue : halves) {
        queue.front()->done = true;
        queue.pop_front();
      }
      changed.notify_all();
    }
    changed.wait(lock, [&] { return half->done || aborted[rank]; });
    if (half->done) return;
    std::erase(halves[rank], half);
  }

  // On a stream's thread: of a message that never arrives.
  void WaitForAbort(int rank) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return aborted[rank]; });
  }

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<Half*> halves[2];  // [rank]
  bool came[2] = {};
  bool finalized[2] = {};
  bool aborted[2] = {};
};

struct FakeNccl::End {
  std::shared_ptr<Wire> wire;
  int ordinal = 0;
  int rank = 0;
  std::string name;
  bool open = true;
  bool finalized = false;
  int polls = 0;               // until `work` begins
  std::function<void()> work;  // begins after a delay
  enum class Until : uint8_t { kNothing, kMet, kFinalized } until = Until::kNothing;
  std::map<void*, void*> registered;  // memory, by handle
};

FakeNccl::FakeNccl(const Options& options) : options_(options), random_(options.seed) {}
FakeNccl::~FakeNccl() = default;

void FakeNccl::Fail(const std::string& edge, NcclResult result) {
  const std::lock_guard lock(mutex_);
  failures_[edge] = result;
}

void FakeNccl::LoseAfter(int64_t messages) {
  const std::lock_guard lock(mutex_);
  arriving_ = messages;
}

int64_t FakeNccl::sent() const {
  const std::lock_guard lock(mutex_);
  return sent_;
}

void FakeNccl::Hang(const std::string& edge) {
  const std::lock_guard lock(mutex_);
  hanging_.insert(edge);
}

int FakeNccl::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

int FakeNccl::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

int FakeNccl::max_ctas() const {
  const std::lock_guard lock(mutex_);
  return max_ctas_;
}

NcclResult FakeNccl::NewId(NcclId* id) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++ids_;
  std::memcpy(id->bytes.data(), &number, sizeof(number));
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Init(int ordinal, const NcclId& id, int rank, const NcclConfig& config,
                          NcclComm* comm) {
  const std::lock_guard lock(mutex_);
  uint64_t number = 0;
  std::memcpy(&number, id.bytes.data(), sizeof(number));
  std::shared_ptr<Wire>& wire = wires_[number];
  if (wire == nullptr) wire = std::make_shared<Wire>();
  auto end = std::make_unique<End>();
  end->wire = wire;
  end->ordinal = ordinal;
  end->rank = rank;
  end->name = config.name;
  end->until = End::Until::kMet;
  max_ctas_ = std::max(max_ctas_, config.max_ctas);
  {
    const std::lock_guard wire_lock(wire->mutex);
    EXPECT_FALSE(wire->came[rank]) << "two ranks are rank " << rank << " of " << config.name;
    wire->came[rank] = true;
  }
  comm->handle = end.get();
  ends_.insert(std::move(end));
  ++open_;
  return NcclResult::kInProgress;
}

FakeNccl::End* FakeNccl::Use(NcclComm comm) {
  auto* end = static_cast<End*>(comm.handle);
  EXPECT_TRUE(end->open) << end->name << " is used after it was given back";
  return end;
}

NcclResult FakeNccl::Begin(End* end, std::function<void()> work) {
  EXPECT_TRUE(end->until == End::Until::kNothing && end->polls == 0)
      << "a call on " << end->name << " while another is in progress";
  EXPECT_FALSE(end->finalized) << "a call on " << end->name << " after it was closed";
  const bool late =
      options_.late_one_in > 0 && random_() % static_cast<uint64_t>(options_.late_one_in) == 0;
  if (!late) {
    work();
    return NcclResult::kSuccess;
  }
  constexpr int kMostPolls = 5;
  end->polls = 1 + static_cast<int>(random_() % kMostPolls);
  end->work = std::move(work);
  return NcclResult::kInProgress;
}

NcclResult FakeNccl::AsyncError(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  End* end = Use(comm);
  if (const auto failure = failures_.find(end->name); failure != failures_.end())
    return failure->second;
  if (hanging_.contains(end->name)) return NcclResult::kInProgress;
  if (end->polls > 0) {
    if (--end->polls > 0) return NcclResult::kInProgress;
    const std::function<void()> work = std::move(end->work);
    if (work) work();
  }
  const std::lock_guard wire_lock(end->wire->mutex);
  const Wire& wire = *end->wire;
  if (end->until == End::Until::kMet && !(wire.came[0] && wire.came[1]))
    return NcclResult::kInProgress;
  if (end->until == End::Until::kFinalized && !(wire.finalized[0] && wire.finalized[1]))
    return NcclResult::kInProgress;
  end->until = End::Until::kNothing;
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Queue(NcclComm comm, int rank, void* data, size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  End* end = Use(comm);
  EXPECT_EQ(end->rank, rank) << "the wrong end of " << end->name;
  if (rank == 0 && ++sent_ > arriving_) {
    failures_[end->name] = NcclResult::kRemoteError;
    FakeDevice::Queue(stream, [wire = end->wire] { wire->WaitForAbort(0); });
    return NcclResult::kSuccess;
  }
  return Begin(end, [wire = end->wire, rank, data, bytes, stream] {
    FakeDevice::Queue(stream, [wire, rank, data, bytes] {
      Wire::Half half{.data = data, .bytes = bytes};
      wire->Meet(rank, &half);
    });
  });
}

NcclResult FakeNccl::Send(NcclComm comm, const void* data, size_t bytes, Stream stream) {
  return Queue(comm, 0, const_cast<void*>(data), bytes, stream);
}

NcclResult FakeNccl::Receive(NcclComm comm, void* data, size_t bytes, Stream stream) {
  return Queue(comm, 1, data, bytes, stream);
}

int FakeNccl::registered() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(handles_.size());
}

size_t FakeNccl::allocated() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& [address, block] : memory_) bytes += block.size();
  return bytes;
}

NcclResult FakeNccl::Allocate(size_t bytes, void** memory) {
  if (!options_.has_memory) return NcclResult::kInvalidUsage;
  std::vector<std::byte> block(bytes);
  *memory = block.data();
  const std::lock_guard lock(mutex_);
  memory_.emplace(*memory, std::move(block));
  return NcclResult::kSuccess;
}

void FakeNccl::Free(void* memory) {
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(memory_.erase(memory), 1U) << "memory that is not NCCL's";
  for (const std::unique_ptr<End>& end : ends_) {
    for (const auto& [handle, registered] : end->registered)
      EXPECT_NE(registered, memory) << "is still registered with " << end->name;
  }
}

// The handle is written as late as NCCL writes it.
NcclResult FakeNccl::Register(NcclComm comm, void* data, size_t /*bytes*/, void** handle) {
  const std::lock_guard lock(mutex_);
  End* end = Use(comm);
  return Begin(end, [this, end, data, handle] {
    *handle = &handles_.emplace_back();
    end->registered.emplace(*handle, data);
  });
}

NcclResult FakeNccl::Deregister(NcclComm comm, void* handle) {
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(Use(comm)->registered.erase(handle), 1U) << "a handle of another, or given back twice";
  return NcclResult::kSuccess;
}

NcclResult FakeNccl::Finalize(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  End* end = Use(comm);
  const NcclResult result = Begin(end, [wire = end->wire, rank = end->rank] {
    const std::lock_guard wire_lock(wire->mutex);
    wire->finalized[rank] = true;
  });
  end->finalized = true;
  end->until = End::Until::kFinalized;
  return result == NcclResult::kSuccess ? NcclResult::kInProgress : result;
}

void FakeNccl::Destroy(NcclComm comm) {
  const std::lock_guard lock(mutex_);
  End* end = Use(comm);
  EXPECT_TRUE(end->finalized && end->until == End::Until::kNothing)
      << end->name << " is destroyed before it was closed";
  EXPECT_TRUE(end->registered.empty()) << end->name << " goes with memory registered";
  end->open = false;
  --open_;
}

std::string FakeNccl::Waiting(int ordinal) const {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<End>& end : ends_) {
    const std::lock_guard wire_lock(end->wire->mutex);
    const bool waits = !end->wire->halves[end->rank].empty() && !end->wire->aborted[end->rank];
    if (end->ordinal == ordinal && waits) return end->name;
  }
  return "";
}

void FakeNccl::Abort(NcclComm comm) {
  int ordinal = 0;
  {
    const std::lock_guard lock(mutex_);
    End* end = Use(comm);
    ordinal = end->ordinal;
    end->open = false;
    end->polls = 0;
    end->work = nullptr;
    end->registered.clear();
    --open_;
    ++aborted_;
    const std::lock_guard wire_lock(end->wire->mutex);
    end->wire->aborted[end->rank] = true;
    end->wire->halves[end->rank].clear();  // the caller may free what they point to
    end->wire->changed.notify_all();
  }
  const Instant deadline = Instant::Now() + absl::Seconds(60);
  while (!Waiting(ordinal).empty()) {
    if (Instant::Now() > deadline) {
      ADD_FAILURE() << "an abort waits for " << Waiting(ordinal) << ", which waits for its own";
      return;
    }
    absl::SleepFor(absl::Microseconds(100));
  }
}

std::string FakeNccl::LastError(NcclComm /*comm*/) { return ""; }

}  // namespace sluice
