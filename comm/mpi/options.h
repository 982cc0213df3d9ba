#ifndef SLUICE_COMM_MPI_OPTIONS_H_
#define SLUICE_COMM_MPI_OPTIONS_H_

#include <atomic>
#include <cstddef>

#include "absl/time/time.h"

namespace sluice {

struct MpiOptions {
  size_t capacity = 1024;                      // messages that may be outstanding on one edge
  absl::Duration spin = absl::ZeroDuration();  // how long a wait spins before it sleeps
  int ranks = 0;                               // only the first so many take part; 0: all
  // How long a rank that shuts down waits for its peers to shut down too.
  absl::Duration shutdown_timeout = absl::Minutes(10);
  // Set by the program's handler of SIGTERM, which mpirun sends to all ranks once one has died, and
  // a second later SIGKILL; null where the program handles no such signal. Ranks of other machines
  // are taken for lost where the group is still open `stop_patience` after the signal.
  const std::atomic<bool>* told_to_stop = nullptr;
  absl::Duration stop_patience = absl::InfiniteDuration();
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_OPTIONS_H_
