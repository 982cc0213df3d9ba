#include "tests/models/fake_device.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "models/device/wait_until.h"

namespace sluice {
namespace {

constexpr std::align_val_t kAlignment{256};  // as cudaMalloc's

}  // namespace

// One recording of an event.
struct FakeDevice::Moment {
  std::mutex mutex;
  std::condition_variable changed;
  bool passed = false;
  std::chrono::steady_clock::time_point when;

  void Pass() {
    const std::lock_guard lock(mutex);
    when = std::chrono::steady_clock::now();
    passed = true;
    changed.notify_all();
  }
  void Await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return passed; });
  }
};

// An event: its last recording.
struct FakeDevice::Mark {
  std::mutex mutex;
  std::shared_ptr<Moment> moment;

  std::shared_ptr<Moment> Get() {
    const std::lock_guard lock(mutex);
    return moment;
  }
};

// A stream.
class FakeDevice::Worker {
 public:
  Worker(uint64_t seed, absl::Duration longest_pause)
      : random_(seed), longest_pause_(longest_pause), thread_([this] { Run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  void Queue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (tape_ != nullptr) return tape_->push_back(std::move(work));
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }
  // Until the next call, what is queued is kept on `tape` instead; null: done.
  void Keep(Tape* tape) {
    const std::lock_guard lock(mutex_);
    tape_ = tape;
  }
  bool keeps() {
    const std::lock_guard lock(mutex_);
    return tape_ != nullptr;
  }
  bool Await(Instant deadline) {
    std::unique_lock lock(mutex_);
    return WaitUntil(changed_, lock, deadline, [this] { return queue_.empty() && !busy_; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;  // all of it is done before the stream goes
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      Pause();
      work();
      lock.lock();
      busy_ = false;
      if (queue_.empty()) changed_.notify_all();  // whoever waits waits for all of it
    }
  }

  void Pause() {
    constexpr unsigned kOneIn = 8;
    if (longest_pause_ == absl::ZeroDuration() || random_() % kOneIn != 0) return;
    std::uniform_real_distribution<double> part(0, 1);
    std::this_thread::sleep_for(absl::ToChronoNanoseconds(part(random_) * longest_pause_));
  }

  std::mt19937_64 random_;
  const absl::Duration longest_pause_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  Tape* tape_ = nullptr;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;  // the last: it uses all of the others
};

// Events, and copies that the host may wait for, are no part of work that is kept.
void FakeDevice::CheckNotKept(Stream stream) {
  if (!static_cast<Worker*>(stream.handle)->keeps()) return;
  std::fprintf(stderr, "a FakeDevice keeps what is queued, and is asked for an event or a copy\n");
  std::abort();
}

FakeDevice::FakeDevice(const Options& options) : options_(options) {}
FakeDevice::~FakeDevice() = default;

absl::StatusOr<DeviceMemory> FakeDevice::Allocate(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (allocated_ + bytes > options_.memory) {
      return absl::ResourceExhaustedError(absl::StrCat(
          bytes, " bytes are needed and the device has ", options_.memory - allocated_));
    }
    allocated_ += bytes;
  }
  const DeviceAllocator& allocator = options_.allocator;
  void* theirs = allocator.allocate == nullptr ? nullptr : allocator.allocate(bytes);
  auto* data = static_cast<std::byte*>(theirs);
  if (theirs == nullptr) data = new (kAlignment) std::byte[static_cast<size_t>(bytes)];
  if (options_.zeroes) std::fill_n(data, bytes, std::byte{0});
  return Take(data, bytes, [this, data, bytes, is_own = theirs == nullptr] {
    is_own ? operator delete[](data, kAlignment) : options_.allocator.free(data);
    const std::lock_guard lock(mutex_);
    allocated_ -= bytes;
  });
}

absl::StatusOr<DeviceMemory> FakeDevice::AllocateShared(int64_t bytes) {
  auto* data = new std::byte[static_cast<size_t>(bytes)];
  std::memset(data, 0, static_cast<size_t>(bytes));
  return Take(data, bytes, [data] { delete[] data; });
}

// Gives the memory back once the device has done its work and forgotten it.
DeviceMemory FakeDevice::Take(std::byte* data, int64_t bytes, std::function<void()> give_back) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(data, bytes);
  const auto free = [this, bytes, give_back = std::move(give_back)](std::byte* gone) {
    Drain();
    {
      const std::lock_guard inner(mutex_);
      ranges_.erase({gone, bytes});
    }
    give_back();
  };
  return DeviceMemory(data, bytes, free);
}

bool FakeDevice::Holds(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound({at, INT64_MAX});
  if (after == ranges_.begin()) return false;
  --after;
  return std::less<>()(at, after->first + after->second);
}

void FakeDevice::Drain() {
  std::vector<Worker*> workers;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& worker : workers_) workers.push_back(worker.get());
  }
  for (Worker* worker : workers) worker->Await(Instant::InfiniteFuture());
}

absl::StatusOr<Stream> FakeDevice::NewStream() {
  const std::lock_guard lock(mutex_);
  workers_.push_back(
      std::make_unique<Worker>(options_.seed * 1000 + workers_.size(), options_.longest_pause));
  return Stream{workers_.back().get()};
}

absl::StatusOr<Event> FakeDevice::NewEvent() {
  const std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(marks_.size()) >= options_.events)
    return absl::ResourceExhaustedError("the device has no events left");
  marks_.push_back(std::make_unique<Mark>());
  return Event{marks_.back().get()};
}

// As a device does that captures: nothing is done while it is kept, all of it is queued at once.
void FakeDevice::Repeat(Stream stream, Recording* recording, absl::FunctionRef<void()> queue) {
  if (!options_.records) return queue();
  auto* worker = static_cast<Worker*>(stream.handle);
  if (recording->handle == nullptr) {
    auto tape = std::make_unique<Tape>();
    worker->Keep(tape.get());
    queue();
    worker->Keep(nullptr);
    const std::lock_guard lock(mutex_);
    recording->handle = tapes_.emplace_back(std::move(tape)).get();
  } else {
    const std::lock_guard lock(mutex_);
    ++replays_;
  }
  Queue(stream, [tape = static_cast<const Tape*>(recording->handle)] {
    for (const std::function<void()>& work : *tape) work();
  });
}

int FakeDevice::replays() const {
  const std::lock_guard lock(mutex_);
  return replays_;
}

void FakeDevice::Record(Event event, Stream stream) {
  CheckNotKept(stream);
  auto moment = std::make_shared<Moment>();
  auto* mark = static_cast<Mark*>(event.handle);
  {
    const std::lock_guard lock(mark->mutex);
    mark->moment = moment;
  }
  Queue(stream, [moment] { moment->Pass(); });
}

void FakeDevice::Wait(Stream stream, Event event) {
  CheckNotKept(stream);
  std::shared_ptr<Moment> moment = static_cast<Mark*>(event.handle)->Get();
  if (moment != nullptr) Queue(stream, [moment] { moment->Await(); });
}

bool FakeDevice::Passed(Event event) {
  const std::shared_ptr<Moment> moment = static_cast<Mark*>(event.handle)->Get();
  if (moment == nullptr) return true;
  const std::lock_guard lock(moment->mutex);
  return moment->passed;
}

absl::Duration FakeDevice::Elapsed(Event from, Event to) {
  const auto when = [](Event event) {
    const std::shared_ptr<Moment> moment = static_cast<Mark*>(event.handle)->Get();
    moment->Await();
    return moment->when;
  };
  return absl::FromChrono(when(to) - when(from));
}

void FakeDevice::Copy(Stream stream, void* to, const void* from, size_t bytes) {
  CheckNotKept(stream);
  if (bytes == 0) return;
  const bool ordinary = !Holds(to) || !Holds(from);
  Queue(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
  if (ordinary) static_cast<Worker*>(stream.handle)->Await(Instant::InfiniteFuture());
}

absl::Status FakeDevice::Synchronize(Stream stream, Instant deadline) {
  if (!static_cast<Worker*>(stream.handle)->Await(deadline))
    return absl::DeadlineExceededError("the device did not end its work in time");
  const std::lock_guard lock(mutex_);
  return lost_;
}

void FakeDevice::Queue(Stream stream, std::function<void()> work) {
  static_cast<Worker*>(stream.handle)->Queue(std::move(work));
}

void FakeDevice::Lose(absl::Status status) {
  const std::lock_guard lock(mutex_);
  lost_ = std::move(status);
}

int64_t FakeDevice::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

}  // namespace sluice
