#ifndef SLUICE_TOOLS_TRAIN_TRAIN_WORLD_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_WORLD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/open.h"

namespace sluice {

// The flags that describe the processes of a run; a launcher gives the same in the environment.
struct WorldFlags {
  std::string transport;  // inprocess, mpi, tcp, nccl; empty: what the launcher suggests
  LaunchFlags launch;
  std::string secret_file;
};

inline constexpr char kSecretVariable[] = "SLUICE_SECRET";

enum class Transport : uint8_t { kInProcess, kMpi, kTcp };

// Which rank this process is, and how it reaches the others.
struct WorldChoice {
  Transport transport = Transport::kInProcess;
  Launch launch;
  // Tensors on devices are sent over NCCL, even between threads of one process. Everything else, and
  // what NCCL needs to connect, is sent by `transport`.
  bool nccl = false;
  std::string secret_file =
      {};  // for tcp; empty: the secret is in kSecretVariable, if there is one
};

// MPI under mpirun, and under an srun that speaks PMI; TCP under torchrun, a plain srun, or with
// --rank; one process alone otherwise. With --transport nccl the same choice is made, for everything
// that NCCL does not send. InvalidArgument where --transport does not go with how the process was
// started, or is not in this build.
absl::StatusOr<WorldChoice> ChooseWorld(const WorldFlags& flags, const Environment& environment);

// Connects this rank to all others; not for Transport::kInProcess. `capacity`: the most messages
// that one edge holds at a time. `told_to_stop`: set once this process got SIGTERM; under mpirun
// that may mean that another rank was lost. `mpi` must outlive the result. Errors are those of
// OpenTcp and MpiProcess::Open.
absl::StatusOr<std::unique_ptr<Communicator>> OpenWorld(const WorldChoice& choice,
                                                        absl::Duration timeout, size_t capacity,
                                                        const std::atomic<bool>* told_to_stop,
                                                        MpiProcess* mpi);

// Whether this rank prints an error of the group, so that a person sees one message: rank 0 prints
// it, or rank 1 where rank 0 is the rank that was lost. If rank 0 is lost while the ranks leave,
// rank 1 may have left already, so every rank that misses rank 0 prints the error. That ranks were
// not started alike every rank prints, since each machine may have a log of its own.
bool PrintsError(int rank, const absl::Status& status);
// Likewise for a rank of `world`, where others may be lost beside the one that `status` names: this
// rank also prints the error if no lower one is there to do so. Waits a moment for their word.
bool PrintsError(const Communicator& world, const absl::Status& status);

// A hash of the running program's file; 0 where it cannot be read.
uint64_t ProgramHash();

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_WORLD_H_
