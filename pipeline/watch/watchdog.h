#ifndef SLUICE_PIPELINE_WATCH_WATCHDOG_H_
#define SLUICE_PIPELINE_WATCH_WATCHDOG_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "comm/progress.h"
#include "models/device/instant.h"
#include "pipeline/watch/hang.h"

namespace sluice {

// Finds the threads of this process's ranks that hang, while it lives (README.md). One hangs
//  - that has made no progress for the time-out, and neither waits for something that has a
//    deadline nor prepares the run;
//  - whose wait for another rank has not ended at its deadline;
//  - if it is a rank's own, which has not noticed for half a second that a rank was late and the
//    run has failed: that one was waited for.
// Time counts as Instant does: a process that was stopped has not hung meanwhile.
class Watchdog {
 public:
  using OnHang = std::function<void(const Hang&)>;

  // `world`: the communicator of a rank of this process; it must outlive this. `on_hang` is called
  // once at most, on the watchdog's thread, after Abort.
  Watchdog(absl::Duration timeout, Communicator* world, OnHang on_hang);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Whose threads it watches.
  ProgressBoard& board() { return board_; }

 private:
  // What was seen of a thread: how many steps it had taken, and since when.
  struct Seen {
    uint64_t steps = 0;
    Instant since;
  };

  void Run();
  std::optional<Hang> Look();
  // For how long the thread has hung, or nothing.
  std::optional<absl::Duration> HungFor(const Progress& thread, Instant now);
  Hang Describe(const Progress& thread, absl::Duration time) const;
  // Returns soon, whether or not Abort has.
  void Tell(const absl::Status& status);

  const absl::Duration timeout_;
  Communicator& world_;
  const OnHang on_hang_;
  ProgressBoard board_;
  std::map<uint64_t, Seen> seen_;  // by Progress::id
  absl::Status failure_;           // of the run
  Instant failed_;                 // when it was seen
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::optional<Hang> hang_;
  std::promise<void> told_;
  std::thread thread_, teller_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_WATCH_WATCHDOG_H_
