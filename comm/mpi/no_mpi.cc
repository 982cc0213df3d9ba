// In place of mpi.cc where there is no MPI.
#include "comm/mpi/mpi.h"

namespace sluice {

std::string MpiLibrary() { return ""; }

absl::StatusOr<std::unique_ptr<Communicator>> OpenMpi(const MpiOptions& /*options*/) {
  return absl::UnimplementedError(
      "this build has no MPI: install libopenmpi-dev (tools/setup does) and build again");
}

}  // namespace sluice
