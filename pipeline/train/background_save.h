#ifndef SLUICE_PIPELINE_TRAIN_BACKGROUND_SAVE_H_
#define SLUICE_PIPELINE_TRAIN_BACKGROUND_SAVE_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"
#include "pipeline/checkpoint/saving/save_outcome.h"

namespace sluice {

// A checkpoint that a thread of its own writes while its rank computes the next step. The thread has
// the lowest priority, so it takes the time in which the rank waits, and where there are more cores
// than ranks, one that is free. Nothing is copied: weights and optimizer state stay as they are until
// the next update, before which the rank calls AwaitRead.
class BackgroundSave {
 public:
  // `save` writes the checkpoint, and calls `on_read` once it reads the rank's state no more.
  using Save = std::function<absl::StatusOr<SaveOutcome>(const std::function<void()>& on_read)>;
  // What `save` refers to must outlive this.
  explicit BackgroundSave(Save save);
  // Waits for the end of the save, which an Abort of its communicator hastens.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Whether the state may change, now or after AwaitRead, which waits for it.
  bool has_read() const;
  void AwaitRead();
  // Whether Finish would not wait.
  bool done() const;
  // Waits for the end, and returns what `save` has.
  absl::StatusOr<SaveOutcome> Finish();

 private:
  void Run(const Save& save);

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool read_ = false;
  bool done_ = false;
  absl::StatusOr<SaveOutcome> outcome_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRAIN_BACKGROUND_SAVE_H_
