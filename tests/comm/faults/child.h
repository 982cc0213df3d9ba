#ifndef SLUICE_TESTS_COMM_FAULTS_CHILD_H_
#define SLUICE_TESTS_COMM_FAULTS_CHILD_H_

#include <string>
#include <vector>

#include "models/device/instant.h"

namespace sluice {

// A program that runs beside the test; its process group is killed when this object is destroyed.
class Child {
 public:
  // `environment`: NAME=VALUE, over the test's own.
  Child(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }
  // Reads until the output contains this text that number of times; false where the output ended,
  // or after some minutes.
  bool AwaitOutput(const std::string& text, int times = 1);
  // The exit code (128 + number of the signal), once the program has ended and closed its output;
  // -1 after some minutes.
  int AwaitExit();
  // Sends SIGSTOP, and returns once the process is stopped.
  void Stop() const;
  // What it has written to both outputs so far.
  const std::string& output() const { return output_; }

 private:
  bool ReadSome(Instant deadline);  // false at the end of the output, or after the deadline

  int pid_ = -1;
  int pipe_ = -1;
  bool ended_ = false;
  std::string output_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_FAULTS_CHILD_H_
