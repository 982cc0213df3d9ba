#ifndef SLUICE_TOOLS_DOCTOR_ACCELERATORS_H_
#define SLUICE_TOOLS_DOCTOR_ACCELERATORS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct Gpu {
  std::string name;
  int64_t memory_bytes = 0;
  int major = 0, minor = 0;  // compute capability
};

struct Accelerators {
  // The newest CUDA that the driver supports, such as "12.4"; empty without a driver.
  std::string cuda_driver;
  std::vector<Gpu> gpus;
  std::string nccl;   // "2.18.5"; empty where the library is not found
  std::string cudnn;  // "9.19.0"; empty where the library is not found
};

// Asks the CUDA driver and NCCL, which are loaded at run time, so any build can tell what the
// machine has.
Accelerators FindAccelerators();
// Each alone, as in Accelerators.
std::string CudaDriverVersion();
std::string NcclVersion();
std::string CudnnVersion();

}  // namespace sluice

#endif  // SLUICE_TOOLS_DOCTOR_ACCELERATORS_H_
