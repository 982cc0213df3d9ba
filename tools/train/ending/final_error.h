#ifndef SLUICE_TOOLS_TRAIN_ENDING_FINAL_ERROR_H_
#define SLUICE_TOOLS_TRAIN_ENDING_FINAL_ERROR_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sluice {

// Prints the last message of a process that is about to be killed while it computes. Once one rank
// has died, mpirun sends SIGTERM to all others and kills them a second later. A rank whose layer
// takes longer than that, or which is still in MPI_Init, would end without an error message and
// without its exit code. While this object lives, its thread checks whether the process has been
// told to stop and `failure` is not OK. If both still hold after `patience`, the thread calls
// print(failure()) and ends the process with exit code 5.
class FinalErrorPrinter {
 public:
  // What the functions refer to must live as long as this object. They are called from its thread.
  FinalErrorPrinter(std::function<absl::Status()> failure, std::function<bool()> told_to_stop,
                    absl::Duration patience, std::function<void(const absl::Status&)> print);
  // From here on the rank prints its own errors.
  ~FinalErrorPrinter();
  FinalErrorPrinter(const FinalErrorPrinter&) = delete;
  FinalErrorPrinter& operator=(const FinalErrorPrinter&) = delete;

 private:
  void Run();

  const std::function<absl::Status()> failure_;
  const std::function<bool()> told_to_stop_;
  const absl::Duration patience_;
  const std::function<void(const absl::Status&)> print_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

// Whether this process is the first of its siblings (the living processes on this machine with the
// same parent) that calls this. For ranks that have no connection yet, where only one of them should
// print an error.
bool FirstOfSiblings();

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_ENDING_FINAL_ERROR_H_
