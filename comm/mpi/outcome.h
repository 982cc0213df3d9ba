#ifndef SLUICE_COMM_MPI_OUTCOME_H_
#define SLUICE_COMM_MPI_OUTCOME_H_

namespace sluice {

// What the groups of a process leave behind for its end. Written by a group's thread while the
// group is open, read by the program's thread once it is closed.
struct MpiOutcome {
  bool group_open = false;
  bool unclean = false;     // MPI holds requests that will never end, so it cannot be finalised
  bool others_end = false;  // the other ranks end by themselves, or the launcher ends them
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_OUTCOME_H_
