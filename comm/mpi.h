#ifndef SLUICE_COMM_MPI_H_
#define SLUICE_COMM_MPI_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"

namespace sluice {

struct MpiOptions {
  size_t capacity = 1024;                       // messages outstanding on an edge
  absl::Duration spin = absl::ZeroDuration();   // of a wait before it sleeps
  int ranks = 0;                                // only the first so many take part; 0: all
  absl::Duration farewell = absl::Minutes(10);  // for peers to say that they leave too
};

// Whether this build speaks MPI, and which ("" or "Open MPI v4.1.4").
std::string MpiLibrary();

// This rank's end of a group of processes that an MPI launcher (mpirun, srun) started; rank and
// size are MPI's. The first call initialises MPI, which is finalised when the process exits; the
// group must be closed before that. All processes must open their groups in the same order, one at
// a time (FailedPrecondition otherwise). Null for a process beyond `options.ranks`. Unimplemented
// in a build without MPI.
//
// One thread makes all MPI calls of a group. It polls, and naps for an eighth (while the rank
// waits: a thirty-second) of the time in which nothing ended, at most half a millisecond.
//
// A failure is told to all ranks. What a peer that has ended or is stopped keeps MPI from finishing
// is left alone after half a second; such a process ends by MPI_Abort with exit code 5, which ends
// the others too.
absl::StatusOr<std::unique_ptr<Communicator>> OpenMpi(const MpiOptions& options);

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_H_
