#ifndef SLUICE_TOOLS_RUN_PROGRAM_H_
#define SLUICE_TOOLS_RUN_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sluice {

struct ProgramCall {
  std::string program;                 // its file
  std::vector<std::string> arguments;  // after its name
  std::string input = {};              // all that it can read from standard input
  absl::Duration patience = absl::InfiniteDuration();
};

struct EndedProgram {
  int exit_code = 0;  // kExitPeerLost where a signal has ended it
  std::string output;
  std::string errors;
};

// Runs another program to its end. ResourceExhausted: it cannot be started. DeadlineExceeded: it
// took longer than its caller's patience, and was killed.
absl::StatusOr<EndedProgram> RunProgram(const ProgramCall& call);

}  // namespace sluice

#endif  // SLUICE_TOOLS_RUN_PROGRAM_H_
