#ifndef SLUICE_COMM_MPI_PROCESS_H_
#define SLUICE_COMM_MPI_PROCESS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "comm/mpi/options.h"
#include "comm/mpi/outcome.h"

namespace sluice {

// The MPI library that this build uses ("Open MPI v4.1.4"); empty in a build without MPI.
std::string MpiLibrary();

// How a process that has used MPI is to end.
enum class MpiEnd : uint8_t {
  kFinalised,   // MPI is finalised, or was never initialised: the process ends as any other
  kOthersEnd,   // MPI cannot be finalised; the other ranks end without help: end by _exit
  kOthersWait,  // MPI cannot be finalised, and other ranks may wait for ever: end by Abort
};

// This process's part in MPI, which a program can enter and leave only once: at most one object per
// process may open groups. All groups must be opened and closed by the same thread, and all closed
// before Finalise and before the object goes. Nothing here ends the process: the program calls
// Finalise and does what it returns.
class MpiProcess {
 public:
  MpiProcess() = default;
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  // This rank's end of a group of the processes that an MPI launcher (mpirun, srun) started; rank
  // and size are MPI's. The first call initialises MPI. All processes must open their groups in the
  // same order, one at a time (FailedPrecondition otherwise). Null for a process beyond
  // `options.ranks`. Unimplemented in a build without MPI.
  //
  // One thread makes all MPI calls of a group. It polls, and naps for an eighth (while the rank
  // waits: a thirty-second) of the time in which nothing ended, at most half a millisecond.
  //
  // A rank of the same machine whose process ends without shutting down is missed within a tenth of
  // a second: Unavailable "rank 3 is gone (its process has ended)". One of another machine is
  // missed by the deadline of the rank that waits for it, or as `told_to_stop` says.
  //
  // A failure is told to all ranks. What a peer that has ended or is stopped keeps MPI from
  // finishing is left alone after half a second; Finalise then returns kOthersWait, or kOthersEnd
  // where all ranks that still live know of the failure or mpirun has told this process to stop.
  absl::StatusOr<std::unique_ptr<Communicator>> Open(const MpiOptions& options);

  bool initialised() const { return initialised_; }

  // Finalises MPI where that can be done. Waits for all ranks without a limit: a program that must
  // end sets a limit of its own.
  MpiEnd Finalise();

  // Ends this process and all others of the job, by MPI_Abort. Only after kOthersWait.
  void Abort(int exit_code);

 private:
  absl::Status Initialise();
  absl::Status MeetAll(const MpiOptions& options);

  bool initialised_ = false;
  MpiOutcome outcome_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_PROCESS_H_
