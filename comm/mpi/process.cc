#include "comm/mpi/process.h"

#include <mpi.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/machine_process.h"
#include "comm/mpi/communicator.h"
#include "comm/mpi/error.h"

namespace sluice {
namespace {

// The process of every rank of `comm`, by rank.
std::vector<MachineProcess> GatherProcesses(MPI_Comm comm, int size) {
  const MachineProcess mine = ThisMachineProcess();
  std::vector<MachineProcess> all(static_cast<size_t>(size));
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, all.data(), sizeof(mine), MPI_BYTE, comm);
  return all;
}

// A communicator of the first `ranks` processes (0: all); MPI_COMM_NULL in every other process.
absl::StatusOr<MPI_Comm> NewGroup(int ranks) {
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  const bool member = ranks == 0 || world_rank < ranks;
  MPI_Comm comm = MPI_COMM_NULL;
  absl::Status status = FromMpi(
      MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, world_rank, &comm), "new group");
  if (!status.ok()) return status;
  if (comm != MPI_COMM_NULL) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

}  // namespace

std::string MpiLibrary() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string whole(text);
  return whole.substr(0, whole.find(','));  // the rest is about how it was built
}

absl::Status MpiProcess::Initialise() {
  if (initialised_) return absl::OkStatus();
  int provided = MPI_THREAD_SINGLE;
  absl::Status status =
      FromMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init");
  if (!status.ok()) return status;
  initialised_ = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // The thread that moves messages is not the one that opened the group, so less will not do.
  if (provided < MPI_THREAD_SERIALIZED) {
    return absl::UnimplementedError("this MPI allows calls from the main thread only");
  }
  return absl::OkStatus();
}

// Waits until all processes have come. MPI's own waits keep a core busy, which the ranks that still
// work need.
absl::Status MpiProcess::MeetAll(const MpiOptions& options) {
  MPI_Request request = MPI_REQUEST_NULL;
  absl::Status status = FromMpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "barrier");
  for (int done = 0; status.ok() && done == 0;) {
    status = FromMpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "barrier");
    if (options.told_to_stop != nullptr && options.told_to_stop->load()) {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      outcome_.unclean = outcome_.others_end = true;
      return ToldToStop(rank);
    }
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return status;
}

absl::StatusOr<std::unique_ptr<Communicator>> MpiProcess::Open(const MpiOptions& options) {
  if (outcome_.group_open) {
    return absl::FailedPreconditionError("one group of MPI at a time: close the other one first");
  }
  if (absl::Status met = Initialise(); !met.ok()) return met;
  if (absl::Status met = MeetAll(options); !met.ok()) return met;
  const absl::StatusOr<MPI_Comm> comm = NewGroup(options.ranks);
  if (!comm.ok()) return comm.status();
  if (*comm == MPI_COMM_NULL) return std::unique_ptr<Communicator>();
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(*comm, &rank);
  MPI_Comm_size(*comm, &size);
  if (options.ranks > size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MPI started ", size, size == 1 ? " process" : " processes", ", not ", options.ranks));
  }
  return std::make_unique<MpiCommunicator>(*comm, rank, size, options, GatherProcesses(*comm, size),
                                           &outcome_);
}

MpiEnd MpiProcess::Finalise() {
  if (!initialised_) return MpiEnd::kFinalised;
  // MPI_Finalize waits for all ranks, and for ever for one that has died.
  if (outcome_.unclean) return outcome_.others_end ? MpiEnd::kOthersEnd : MpiEnd::kOthersWait;
  MPI_Finalize();
  initialised_ = false;
  return MpiEnd::kFinalised;
}

void MpiProcess::Abort(int exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

}  // namespace sluice
