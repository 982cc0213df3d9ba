#ifndef SLUICE_TOOLS_LAST_WORDS_H_
#define SLUICE_TOOLS_LAST_WORDS_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"

namespace sluice {

// Speaks for a rank that is in the middle of a long computation when it is to be killed. mpirun
// tells all ranks to stop (SIGTERM) once one has died, and kills them a second later; a rank whose
// layer takes longer would go without a word and without its exit code. While this object lives, a
// thread looks whether the process has been told to stop and the group has failed; if it still
// lives `patience` later, it calls speak(the group's failure) and ends the process with exit
// code 5.
class LastWords {
 public:
  // `group`, `told_to_stop` and what `speak` refers to must live as long as this.
  LastWords(const Communicator& group, const std::atomic<bool>& told_to_stop,
            absl::Duration patience, std::function<void(const absl::Status&)> speak);
  // From here on the rank speaks for itself.
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  void Run();

  const Communicator& group_;
  const std::atomic<bool>& told_to_stop_;
  const absl::Duration patience_;
  const std::function<void(const absl::Status&)> speak_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAST_WORDS_H_
