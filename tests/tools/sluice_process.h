#ifndef SLUICE_TESTS_TOOLS_SLUICE_PROCESS_H_
#define SLUICE_TESTS_TOOLS_SLUICE_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/models/data/files.h"

namespace sluice {

// How the program ended, and its output.
struct ProcessResult {
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;
  double seconds = 0;
  std::string out;
  std::string err;
};

// The real `sluice`, started with `arguments`.
class SluiceProcess {
 public:
  // `file_limit_kib` > 0: no file may grow beyond that, as on a full disk.
  explicit SluiceProcess(const std::vector<std::string>& arguments, int file_limit_kib = 0);
  ~SluiceProcess();
  SluiceProcess(const SluiceProcess&) = delete;
  SluiceProcess& operator=(const SluiceProcess&) = delete;

  // Waits until its output contains `text`; false when the program ended, or after a time limit.
  bool WaitForOutput(const std::string& text);
  void Signal(int signal) const;
  pid_t pid() const { return pid_; }
  // Waits for its end. A program that takes too long is killed, and the test fails.
  ProcessResult Wait();

 private:
  bool Ended();

  TempFolder folder_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

ProcessResult RunSluice(const std::vector<std::string>& arguments, int file_limit_kib = 0);

// Splits at spaces.
std::vector<std::string> Words(const std::string& text);

}  // namespace sluice

#endif  // SLUICE_TESTS_TOOLS_SLUICE_PROCESS_H_
