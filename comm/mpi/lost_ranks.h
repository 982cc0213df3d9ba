#ifndef SLUICE_COMM_MPI_LOST_RANKS_H_
#define SLUICE_COMM_MPI_LOST_RANKS_H_

#include <functional>
#include <vector>

#include "comm/machine_process.h"
#include "comm/message_queue.h"

namespace sluice {

// Finds the ranks of this machine whose processes have ended, which MPI does not tell, by their
// process numbers. Used by the group's thread, but for Health.
class LostRanks {
 public:
  // `processes`: of all ranks, by rank.
  LostRanks(int rank, std::vector<MachineProcess> processes);

  // Looks once at every rank of this machine for which `expected` is true. A rank is lost once two
  // looks have missed its process, so that a last message, which may still be on the way, comes
  // first; calls `lost` for each of those. Returns whether any process was missed.
  bool Look(const std::function<bool(int rank)>& expected,
            const std::function<void(int rank)>& lost);
  bool IsLost(int rank) const { return missed_[static_cast<size_t>(rank)] >= 2; }
  bool AnyIsLost() const;
  // Whether all ranks run on this machine.
  bool AllAreHere() const;
  // For errors about a message with `peer` that is late: the ranks that are stopped, whatever rank
  // was waited for, and the first of them as the suspect. Any thread may ask.
  PeerHealth Health(int peer) const;

 private:
  const MachineProcess& ProcessOf(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  bool IsHere(int rank) const { return SameMachine(ProcessOf(rank_), ProcessOf(rank)); }
  int size() const { return static_cast<int>(processes_.size()); }

  const int rank_;
  const std::vector<MachineProcess> processes_;
  std::vector<int> missed_;  // by rank: the looks that did not find its process
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_LOST_RANKS_H_
