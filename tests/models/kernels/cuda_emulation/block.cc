#include "tests/models/kernels/cuda_emulation/block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace sluice::emulation {
namespace {

constexpr int kPoison = 0xFF;  // 0xFFFF is a bf16 NaN, 0xFFFFFFFF an fp32 one

[[noreturn]] void Stop(const char* what, std::string_view one = "", std::string_view other = "") {
  std::fprintf(stderr, "emulated kernel: %s %.*s %.*s\n", what, static_cast<int>(one.size()),
               one.data(), static_cast<int>(other.size()), other.data());
  std::abort();
}

struct Copy {
  std::byte* to;
  const void* from;
  size_t bytes;
  bool zero;
  int group;  // of the thread's, from 0

  void Land() const { zero ? std::memset(to, 0, bytes) : std::memcpy(to, from, bytes); }
};

constexpr std::string_view kBarrier = "the block's barrier";
constexpr std::string_view kEnd = "its end";

struct Thread {
  Fiber fiber;
  Place place;
  std::string_view waits_at;  // kBarrier, kEnd or a meeting's name
  void* operand = nullptr;
  void (*work)(Operands) = nullptr;
  std::vector<Copy> copies;
  int groups = 0;  // of copies, that have ended
};

// Stacks are dear to make: those of blocks that ended serve the next ones of this host thread.
std::vector<std::unique_ptr<Thread>>& IdleThreads() {
  static thread_local std::vector<std::unique_ptr<Thread>> idle;
  return idle;
}

// One block at a time: fibers and memory serve them all.
class Block {
 public:
  Block(const Grid& grid, uint64_t seed)
      : random_(seed), shared_(grid.shared_bytes + kAlignment), threads_(grid.threads) {
    if (grid.threads % kLanes != 0) Stop("threads are not whole warps");
    for (auto& thread : threads_) {
      if (IdleThreads().empty()) IdleThreads().push_back(std::make_unique<Thread>());
      thread = std::move(IdleThreads().back());
      IdleThreads().pop_back();
    }
    const size_t misaligned = reinterpret_cast<uintptr_t>(shared_.data()) % kAlignment;
    start_ = shared_.data() + (kAlignment - misaligned) % kAlignment;
    bytes_ = grid.shared_bytes;
  }

  ~Block() {
    for (auto& thread : threads_) IdleThreads().push_back(std::move(thread));
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void Run(Place place, const std::function<void()>& body);

  // Of the current thread: until the warp goes on.
  void WaitAt(std::string_view place);

  Thread& current() { return *current_; }
  std::byte* shared() { return start_; }
  size_t shared_bytes() const { return bytes_; }
  bool Toss() { return random_() % 2 == 0; }
  std::vector<size_t> Shuffled(size_t n) {
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

 private:
  static constexpr size_t kAlignment = 128;

  std::string_view RunWarp(size_t warp);
  void CheckTogether(size_t warp);
  Fiber* NextLane();

  std::minstd_rand random_;
  std::vector<std::byte> shared_;
  std::byte* start_;
  size_t bytes_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Thread* current_ = nullptr;
  std::vector<Thread*> turn_;  // the lanes of the warp that have not had theirs; the last is next
};

void Block::CheckTogether(size_t warp) {
  const std::string_view place = threads_[warp * kLanes]->waits_at;
  for (size_t lane = 1; lane < kLanes; ++lane) {
    const std::string_view other = threads_[warp * kLanes + lane]->waits_at;
    if (other.data() != place.data() && other != place)
      Stop("lanes of a warp part ways:", place, other);
  }
}

Fiber* Block::NextLane() {
  if (turn_.empty()) return nullptr;
  current_ = turn_.back();
  turn_.pop_back();
  return &current_->fiber;
}

// From lane to lane, as each change of stacks takes time.
void Block::WaitAt(std::string_view place) {
  Thread& thread = *current_;
  thread.waits_at = place;
  Fiber* const next = NextLane();
  next == nullptr ? thread.fiber.Yield() : thread.fiber.SwitchTo(*next);
}

// Until all lanes are at the barrier or at their end; returns which.
std::string_view Block::RunWarp(size_t warp) {
  const std::unique_ptr<Thread>* const lanes = &threads_[warp * kLanes];
  const std::vector<size_t> order = Shuffled(kLanes);
  for (;;) {
    for (const size_t lane : order) turn_.push_back(lanes[lane].get());
    NextLane()->Resume();
    CheckTogether(warp);
    const std::string_view place = lanes[0]->waits_at;
    if (place == kBarrier || place == kEnd) return place;
    void* operands[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) operands[lane] = lanes[lane]->operand;
    lanes[0]->work(operands);
  }
}

void Block::Run(Place place, const std::function<void()>& body) {
  const Fiber::Body run = [&] {
    body();
    current_->waits_at = kEnd;
    return NextLane();
  };
  std::memset(start_, kPoison, bytes_);
  for (size_t i = 0; i < threads_.size(); ++i) {
    place.thread = static_cast<int>(i);
    threads_[i]->place = place;
    threads_[i]->copies.clear();
    threads_[i]->groups = 0;
    threads_[i]->fiber.Start(run);
  }
  for (bool ended = false; !ended;) {
    std::string_view reached;
    for (const size_t warp : Shuffled(threads_.size() / kLanes)) {
      const std::string_view end = RunWarp(warp);
      if (!reached.empty() && end != reached) Stop("warps part ways:", reached, end);
      reached = end;
    }
    ended = reached == kEnd;
  }
}

Block* running = nullptr;

}  // namespace

void RunGrid(const Grid& grid, uint64_t seed, const std::function<void()>& body) {
  Block block(grid, seed);
  running = &block;
  for (const size_t i : block.Shuffled(static_cast<size_t>(grid.x * grid.y))) {
    const auto index = static_cast<int64_t>(i);
    block.Run({.block_x = index % grid.x,
               .block_y = index / grid.x,
               .blocks_x = grid.x,
               .blocks_y = grid.y},
              body);
  }
  running = nullptr;
}

const Place& Here() { return running->current().place; }

std::byte* Shared() { return running->shared(); }

std::byte* SharedAt(uint32_t address, size_t bytes) {
  if (address % bytes != 0) Stop("misaligned address of shared memory");
  if (address + bytes > running->shared_bytes()) Stop("shared memory is left");
  return running->shared() + address;
}

void MeetWarp(std::string_view name, void* operand, void (*work)(Operands)) {
  Thread& thread = running->current();
  thread.operand = operand;
  thread.work = work;
  running->WaitAt(name);
}

void MeetBlock() { running->WaitAt(kBarrier); }

void CopyLater(std::byte* to, const void* from, size_t bytes, bool zero) {
  const Copy copy = {to, from, bytes, zero, running->current().groups};
  if (running->Toss()) return copy.Land();
  std::memset(to, kPoison,
              bytes);  // whoever reads it before it lands, or still reads what was there
  running->current().copies.push_back(copy);
}

void WaitForCopies() {
  std::vector<Copy>& copies = running->current().copies;
  for (const Copy& copy : copies) copy.Land();
  copies.clear();
}

void EndCopyGroup() { running->current().groups += 1; }

void WaitForCopyGroups(int left) {
  Thread& thread = running->current();
  std::erase_if(thread.copies, [&](const Copy& copy) {
    const bool waited_for = copy.group < thread.groups - left;
    if (waited_for) copy.Land();
    return waited_for;
  });
}

}  // namespace sluice::emulation
