#ifndef SLUICE_TOOLS_TRAIN_ENDING_MPI_END_H_
#define SLUICE_TOOLS_TRAIN_ENDING_MPI_END_H_

#include "comm/mpi/process.h"

namespace sluice {

// Ends this process's use of MPI, once its group is closed; without MPI it does nothing. Returns
// `exit_code` where the process may then end normally. Otherwise it ends the process with exit code
// 5, and the whole job where other ranks might wait for ever.
int EndMpi(MpiProcess& mpi, int exit_code);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_ENDING_MPI_END_H_
