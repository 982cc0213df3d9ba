#ifndef SLUICE_TOOLS_TRAIN_LAST_WORDS_H_
#define SLUICE_TOOLS_TRAIN_LAST_WORDS_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice {

// Speaks for a rank that is in the middle of a long computation when it is to be killed. mpirun
// tells all ranks to stop (SIGTERM) once one has died, and kills them a second later; a rank whose
// layer takes longer, or which is still in MPI_Init, would go without a word and without its exit
// code. While this object lives, a thread looks whether the process has been told to stop and
// `failure` is not OK; if it still lives `patience` later, it calls speak(failure()) and ends the
// process with exit code 5.
class LastWords {
 public:
  // `told_to_stop` and what the functions refer to must live as long as this; another thread calls
  // them.
  LastWords(std::function<absl::Status()> failure, const std::atomic<bool>& told_to_stop,
            absl::Duration patience, std::function<void(const absl::Status&)> speak);
  // From here on the rank speaks for itself.
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  void Run();

  const std::function<absl::Status()> failure_;
  const std::atomic<bool>& told_to_stop_;
  const absl::Duration patience_;
  const std::function<void(const absl::Status&)> speak_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

// Whether this process is the first to ask, of those on this machine that have its parent, as long
// as it lives: for ranks that do not know each other yet, and of which one is to speak.
bool FirstToSpeak();

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LAST_WORDS_H_
