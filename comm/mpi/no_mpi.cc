// In place of this folder's other sources where there is no MPI.
#include "comm/mpi/process.h"

namespace sluice {

std::string MpiLibrary() { return ""; }

absl::StatusOr<std::unique_ptr<Communicator>> MpiProcess::Open(const MpiOptions& /*options*/) {
  return absl::UnimplementedError(
      "this build has no MPI: install libopenmpi-dev (tools/setup does) and build again");
}

MpiEnd MpiProcess::Finalise() { return MpiEnd::kFinalised; }

void MpiProcess::Abort(int /*exit_code*/) {}

}  // namespace sluice
