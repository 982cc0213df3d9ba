#ifndef SLUICE_COMM_MPI_MPI_H_
#define SLUICE_COMM_MPI_MPI_H_

#include <atomic>
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
  // Set by the program's handler of SIGTERM, which mpirun sends to all ranks once one has died, and
  // a second later SIGKILL; null: nobody says. Ranks of other machines are taken for lost where
  // the group is still open so long after that.
  const std::atomic<bool>* told_to_stop = nullptr;
  absl::Duration stop_patience = absl::InfiniteDuration();
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
// A rank of the same machine whose process ends without a farewell is missed within a tenth of a
// second: Unavailable "rank 3 is gone (its process has ended)". One of another machine is missed by
// the deadline of who waits for it, or as `told_to_stop` says.
//
// A failure is told to all ranks. What a peer that has ended or is stopped keeps MPI from finishing
// is left alone after half a second; such a process ends by MPI_Abort with exit code 5, which ends
// the others too. It just ends with 5 where all that still live know, or mpirun has told it to
// stop.
absl::StatusOr<std::unique_ptr<Communicator>> OpenMpi(const MpiOptions& options);

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_MPI_H_
