#include "tools/train/ending/mpi_end.h"

#include <unistd.h>

#include <cstdio>
#include <thread>

#include "absl/time/clock.h"
#include "models/device/out_of_memory.h"
#include "models/device/wait_until.h"
#include "tools/command.h"

namespace sluice {
namespace {

constexpr absl::Duration kFinaliseTimeout = absl::Minutes(10);
// Of a rank that has lost another one: that one may have ended or hang, and then MPI_Finalize waits for
// ever. So may MPI_Abort: mpirun answers nobody while it ends the job because of another rank.
constexpr absl::Duration kFinaliseTimeoutOfLost = absl::Milliseconds(500);
// The other ranks have been told of the failure; this wait gives them time to print what they know,
// and gives mpirun time to pass on what this process has printed: mpirun drops output that it has
// not read when the last rank ends.
constexpr absl::Duration kOutputGrace = absl::Milliseconds(200);

// Ends the process if MPI waits too long for the other ranks. `lost`: because one of them was lost, of
// which the rank has told already.
void StartFinaliseTimeout(bool lost) {
  const absl::Duration limit = lost ? kFinaliseTimeoutOfLost : kFinaliseTimeout;
  const auto leave = [lost, until = Instant::Now() + limit] {
    SleepUntil(until);
    if (!lost)
      PrintError(absl::UnavailableError("some ranks of MPI do not end; leaving without them"));
    _exit(kExitPeerLost);
  };
  std::thread thread;
  // Without it the process may wait longer, but nothing is lost: the training has ended.
  if (StartThread("leaving MPI", leave, &thread).ok()) thread.detach();
}

}  // namespace

int EndMpi(MpiProcess& mpi, int exit_code) {
  if (!mpi.initialised()) return exit_code;
  StartFinaliseTimeout(/*lost=*/exit_code == kExitPeerLost);
  const MpiEnd end = mpi.Finalise();
  if (end == MpiEnd::kFinalised) return exit_code;
  absl::SleepFor(kOutputGrace);
  std::fflush(nullptr);
  if (end == MpiEnd::kOthersWait) mpi.Abort(kExitPeerLost);
  _exit(kExitPeerLost);
}

}  // namespace sluice
