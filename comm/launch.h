#ifndef SLUICE_COMM_LAUNCH_H_
#define SLUICE_COMM_LAUNCH_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Who told this process its rank.
enum class LaunchSource { kAlone, kFlags, kTorchrun, kOpenMpi, kSlurm, kSupervisor };

absl::string_view LaunchSourceName(LaunchSource source);

// Which rank of how many this process is, and where rank 0 can be met.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this machine; -1 where nobody said
  // The address of rank 0's machine; empty where nobody said (Open MPI on several machines).
  std::string address{};
  int port = 0;  // 0 only where there is one rank
  LaunchSource source = LaunchSource::kAlone;
};

// What a person may say on the command line. Rank and world size go together; an address or a port
// alone takes the place of the launcher's.
struct LaunchFlags {
  std::optional<int> rank;         // --rank
  std::optional<int> world_size;   // --world-size
  std::string master_addr;         // --master-addr
  std::optional<int> master_port;  // --master-port
};

// The value of an environment variable, nothing where it is not set. Tests pass their own.
using Environment = std::function<std::optional<std::string>(absl::string_view name)>;
Environment ProcessEnvironment();

// The port at which ranks meet where nobody names another.
inline constexpr int kDefaultMasterPort = 29500;

// Flags come before torchrun (RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT), that before Open
// MPI (OMPI_COMM_WORLD_*), that before Slurm (SLURM_* as srun sets them; a batch script without
// srun is alone). Under torchrun whose agent listens at MASTER_PORT itself, ranks meet at the port
// after it. InvalidArgument names the flag or variable, and its value, that is missing or makes no
// sense.
absl::StatusOr<Launch> FindLaunch(const LaunchFlags& flags, const Environment& environment);

}  // namespace sluice

#endif  // SLUICE_COMM_LAUNCH_H_
