#ifndef SLUICE_COMM_PROGRESS_H_
#define SLUICE_COMM_PROGRESS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "comm/where.h"
#include "models/device/instant.h"

namespace sluice {

class Progress;

// The threads of this process's ranks whose progress somebody watches.
class ProgressBoard {
 public:
  ProgressBoard() = default;
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  // Calls `look` for every thread that is on the board; none of them leaves it, or ends, meanwhile.
  void ForEach(absl::FunctionRef<void(const Progress&)> look) const;

 private:
  friend class Progress;
  mutable std::mutex mutex_;
  std::vector<const Progress*> threads_;
  uint64_t added_ = 0;
};

// What one thread of a rank notes about its work, for a watchdog that has to tell a thread that
// hangs from one that works or waits. The thread writes it by relaxed stores, which cost it nothing
// that can be measured; any other may read it. On the board for as long as this object lives.
class Progress {
 public:
  // A rank's thread, which calls this. `where` says where in the run the rank is; it is called by
  // other threads.
  Progress(ProgressBoard* board, int rank, std::function<Where()> where);
  // Another thread of the same rank, which calls this; `doing`: "writes a checkpoint". It has to
  // show progress from now on.
  Progress(const Progress& of_rank, const char* doing);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Notes that the thread has got on.
  void Step() { steps_.store(steps_.load(kRelaxed) + 1, kRelaxed); }
  // From now on the thread has to show progress. Before, it prepares, for however long.
  void Begin() { begun_.store(true, kRelaxed); }
  // What the last call of a communicator has told the thread: whether the run has failed.
  void SetInformed(bool informed) { informed_.store(informed, kRelaxed); }

  // While one lives, the thread waits for something that ends by a deadline of its own, however
  // long that takes. An infinite deadline is for waits for another thread that is on the board.
  class Waiting {
   public:
    // `progress`: null where nobody watches, here and below.
    Waiting(Progress* progress, Instant deadline);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Progress* const progress_;
    int64_t before_ = 0;
  };

  // While one lives, the thread does what `doing` says, where that is no action of the timetable:
  // "updates weights". The text must outlive all readers: a literal.
  class Phase {
   public:
    Phase(Progress* progress, const char* doing);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    Progress* const progress_;
    const char* before_ = nullptr;
  };

  // For who watches.
  uint64_t id() const {
    return id_;
  }  // of this object, different from that of any other of its board
  int rank() const { return rank_; }
  pid_t thread() const { return thread_; }
  bool is_ranks_own() const { return is_ranks_own_; }
  uint64_t steps() const { return steps_.load(kRelaxed); }
  bool begun() const { return begun_.load(kRelaxed); }
  bool informed() const { return informed_.load(kRelaxed); }
  const char* doing() const { return doing_.load(kRelaxed); }  // null: nothing beside `where`
  std::optional<Instant> waits_until() const;                  // none: it is in no wait
  Where where() const { return where_(); }

 private:
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
  static constexpr int64_t kNoWait = INT64_MIN;

  void Join();

  ProgressBoard& board_;
  const int rank_;
  const bool is_ranks_own_;
  const std::function<Where()> where_;
  const pid_t thread_;
  uint64_t id_ = 0;
  std::atomic<uint64_t> steps_{0};
  std::atomic<bool> begun_{false};
  std::atomic<bool> informed_{false};
  std::atomic<const char*> doing_{nullptr};
  std::atomic<int64_t> wait_until_{kNoWait};  // nanoseconds of Instant's clock
};

}  // namespace sluice

#endif  // SLUICE_COMM_PROGRESS_H_
