#ifndef SLUICE_COMM_COLLECTIVES_MACHINE_SUM_H_
#define SLUICE_COMM_COLLECTIVES_MACHINE_SUM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "comm/machine_process.h"
#include "models/device/instant.h"

namespace sluice {

// The sum of what the ranks of this rank's machine call it with, below 2^53; of this rank alone
// where the machine does not say what it is. All ranks of the group must call it. Errors are the
// communicator's.
absl::StatusOr<int64_t> SumOverMachine(Communicator& group, int64_t mine, Instant deadline,
                                       const MachineProcess& self = ThisMachineProcess());

}  // namespace sluice

#endif  // SLUICE_COMM_COLLECTIVES_MACHINE_SUM_H_
