#ifndef SLUICE_TOOLS_TRAIN_RUNNING_TRAIN_SIGNALS_H_
#define SLUICE_TOOLS_TRAIN_RUNNING_TRAIN_SIGNALS_H_

#include <atomic>

namespace sluice {

// What signals have asked this process for; each flag is set once, by a signal handler among others.
struct TrainSignals {
  // By Ctrl-C, by SIGHUP and by SIGTERM, which batch systems send before they kill, and where the
  // reader of stdout is gone; the run ends after the current step. A second signal ends the process
  // at once.
  std::atomic<bool> interrupted{false};
  // By SIGTERM. mpirun sends it to all ranks, possibly several times, when one of them has died,
  // so under MPI a second one does not end the process.
  std::atomic<bool> terminated{false};
  std::atomic<bool> under_mpi{false};
  // SIGTERM asks this process alone to leave a run that goes on without it. Nor does a second one end
  // it then.
  std::atomic<bool> leaves_alone{false};
  std::atomic<bool> reader_left{false};
};
TrainSignals& Signals();

// From now on, SIGINT, SIGTERM and SIGHUP set these flags. One that the process was started to ignore
// (`&` in a script, nohup) stays ignored.
void CatchSignals();
// The same for SIGTERM alone, whatever it was before.
void CatchTermination();

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_RUNNING_TRAIN_SIGNALS_H_
