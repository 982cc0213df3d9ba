#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_CHECK_PROGRESS_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_CHECK_PROGRESS_H_

#include <vector>

#include "absl/status/status.h"
#include "pipeline/compile/plan/program.h"

namespace sluice {

struct ProgramProgress {
  absl::Status status;           // Internal: names the ranks that would wait for each other
  std::vector<int> cannot_send;  // those of them that wait until a message of theirs is received
};

// Proves that the programs, run together, come to an end however slow each rank is: a send
// completes once its receive has been posted, and the other way round, and a sum of gradients over
// a group of ranks (RankGroup) once all of them have come to it.
ProgramProgress CheckProgress(const std::vector<RankProgram>& programs);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_CHECK_PROGRESS_H_
