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

// What a person may say about the processes of a run; a launcher says the same in the environment.
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
  // Tensors of devices travel over NCCL, even between threads of one process; all else, and what
  // NCCL needs to begin, by `transport`.
  bool nccl = false;
  std::string secret_file = {};  // of tcp; empty: the secret is in kSecretVariable, if anywhere
};

// MPI under mpirun, and under an srun that speaks PMI; TCP under torchrun, a plain srun, or with
// --rank; one process alone otherwise; so too with --transport nccl, beside it. InvalidArgument
// where --transport does not go with how the process was started, or is not in this build.
absl::StatusOr<WorldChoice> ChooseWorld(const WorldFlags& flags, const Environment& environment);

// This rank's end of all ranks; not for Transport::kInProcess. `capacity`: messages outstanding on
// an edge. `told_to_stop`: set once this process got SIGTERM; under mpirun that may mean that
// another rank is lost. `mpi` outlives the group. Errors are OpenTcp's and MpiProcess::Open's.
absl::StatusOr<std::unique_ptr<Communicator>> OpenWorld(const WorldChoice& choice,
                                                        absl::Duration timeout, size_t capacity,
                                                        const std::atomic<bool>* told_to_stop,
                                                        MpiProcess* mpi);

// Whether it is this rank that prints an error of the group, so that one message is seen: rank 0,
// or rank 1 where rank 0 is the one that is lost. Where that happens while they leave, rank 1 may
// have left already, so every rank that misses rank 0 says so.
bool SpeaksFor(int rank, const absl::Status& status);

// A hash of the running program's file; 0 where it cannot be read.
uint64_t ProgramHash();

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_WORLD_H_
