#ifndef SLUICE_COMM_MACHINE_PROCESS_H_
#define SLUICE_COMM_MACHINE_PROCESS_H_

#include <cstdint>

namespace sluice {

// A process, and where its number means something: two processes with the same `machine` can look
// for each other by `process`.
struct MachineProcess {
  uint64_t machine = 0;  // a hash; 0 where this machine does not say what it is
  int64_t process = 0;
};

MachineProcess ThisMachineProcess();

// Whether `other` is on the machine (and in the container) of `self`.
bool SameMachine(const MachineProcess& self, const MachineProcess& other);

// Whether a process of this machine has ended, and its parent has heard so.
bool HasEnded(const MachineProcess& process);

// Whether a process of this machine is stopped, by SIGSTOP or a debugger.
bool IsStopped(const MachineProcess& process);

}  // namespace sluice

#endif  // SLUICE_COMM_MACHINE_PROCESS_H_
