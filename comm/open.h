#ifndef SLUICE_COMM_OPEN_H_
#define SLUICE_COMM_OPEN_H_

// What a program needs to become one rank of several processes: who am I, and a communicator.
#include "comm/launch.h"       // IWYU pragma: export
#include "comm/mpi/process.h"  // IWYU pragma: export
#include "comm/tcp/tcp.h"      // IWYU pragma: export

#endif  // SLUICE_COMM_OPEN_H_
