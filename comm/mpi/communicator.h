#ifndef SLUICE_COMM_MPI_COMMUNICATOR_H_
#define SLUICE_COMM_MPI_COMMUNICATOR_H_

#include <mpi.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/machine_process.h"
#include "comm/mpi/control.h"
#include "comm/mpi/lost_ranks.h"
#include "comm/mpi/options.h"
#include "comm/mpi/outcome.h"
#include "comm/mpi/requests.h"
#include "comm/wire_communicator.h"
#include "models/device/instant.h"

namespace sluice {

// One rank's end of a group of processes under MPI; see MpiProcess::Open. Its thread makes all MPI
// calls from the constructor to the destructor.
class MpiCommunicator : public WireCommunicator {
 public:
  // Takes `comm`. `processes`: of all ranks, by rank. `outcome` outlives the group.
  MpiCommunicator(MPI_Comm comm, int rank, int size, const MpiOptions& options,
                  std::vector<MachineProcess> processes, MpiOutcome* outcome);
  ~MpiCommunicator() override;

 private:
  void Run();
  void Serve();
  void GiveUp(const absl::Status& status);
  void Wake();
  bool StopIsAsked();
  void Rest(Instant busy_at);
  void Watch();
  bool LookForLost();
  bool IsToldToStop() const;
  void ShutDown();
  bool FinishExchange();
  bool AwaitsOnlyLost() const;

  const MpiOptions options_;
  MPI_Comm comm_;
  MpiOutcome& outcome_;
  std::mutex mutex_;  // guards the next three
  std::condition_variable woken_;
  bool wake_ = false;
  bool stop_ = false;
  // The thread's own.
  MpiRequests requests_;
  MpiControl control_;
  LostRanks lost_;
  Instant next_look_ = Instant::InfinitePast();
  Instant told_to_stop_at_ = Instant::InfiniteFuture();
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_COMMUNICATOR_H_
