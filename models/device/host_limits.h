#ifndef SLUICE_MODELS_DEVICE_HOST_LIMITS_H_
#define SLUICE_MODELS_DEVICE_HOST_LIMITS_H_

#include <cstdint>
#include <string>

namespace sluice {

// What this process may use of the machine: what Linux says that there is, and the limits of the
// control groups (versions 1 and 2) that the process is in: a container's, a batch job's.
//
// `root` is put before all paths: "" but in tests. What cannot be read limits nothing.

struct HostMemory {
  int64_t total_bytes = 0;       // 0 where Linux does not say
  int64_t available_bytes = -1;  // without swapping; -1 where Linux does not say
  // A control group leaves less than the machine has. A process that takes more is killed.
  bool in_group = false;
};
HostMemory ReadHostMemory(const std::string& root = "");

// The cores whose time the control groups allow, for example 1.5; infinite without a limit.
double ReadCoreQuota(const std::string& root = "");

// How many threads of this process can run at the same time: the cores that the calling thread may
// run on, or the quota, rounded up, where it is less. At least 1.
int CoresToUse();

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_HOST_LIMITS_H_
