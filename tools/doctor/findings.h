#ifndef SLUICE_TOOLS_DOCTOR_FINDINGS_H_
#define SLUICE_TOOLS_DOCTOR_FINDINGS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/device/host_limits.h"
#include "partitioner/planning/profiling/machine.h"
#include "tools/doctor/accelerators.h"

namespace sluice {

// An instruction set that training uses, and the flag by which Linux reports it.
struct InstructionSet {
  const char* name;
  const char* flag;
};
constexpr InstructionSet kInstructionSets[] = {
    {"avx2", "avx2"},        {"fma", "fma"},      {"avx512", "avx512bw"},
    {"bf16", "avx512_bf16"}, {"amx", "amx_bf16"},
};

// What this machine has for training. Strings are empty where it has nothing.
struct Findings {
  Processor processor;
  int usable_cores = 0;
  HostMemory memory;
  std::string onednn;      // version
  std::string onednn_isa;  // the instruction set that its kernels will use here
  bool bf16 = false;       // whether they include products in bf16
  Accelerators accelerators;
  bool cuda_build = false;  // this binary has kernels for GPUs
  bool cublaslt = false;    // the cuBLASLt that they need was found
  std::string mpirun, mpi_version;
  std::string mpi_library;  // with which this binary was built
  std::string ssh;
  std::string fashion_mnist;  // the folder of IDX files
  std::string bible;          // the program that prints the text
};

// Something that the machine lacks, what that means, and how to get it (empty where that is
// impossible).
struct Lack {
  std::string what, meaning, remedy;
};

Findings Examine();
std::vector<Lack> FindLacks(const Findings& found);
// Names, bytes and counts as JSON; null where there is nothing.
nlohmann::ordered_json ToJson(const Findings& found, const std::vector<Lack>& lacks);

}  // namespace sluice

#endif  // SLUICE_TOOLS_DOCTOR_FINDINGS_H_
