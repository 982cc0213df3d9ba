#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_MACHINE_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct Cache {
  int level = 0;
  std::string type;  // "Data", "Instruction" or "Unified"
  int64_t bytes = 0;
  int shared_by = 1;  // logical cores
};

struct Processor {
  std::string model;
  int logical_cores = 0;
  int physical_cores = 0;
  std::vector<std::string> flags;  // as Linux names them: "avx2", "avx512_bf16", "amx_tile"
  std::vector<Cache> caches;       // those that core 0 uses, smallest level first

  bool Has(const std::string& flag) const;
};

// What Linux says of the machine. `root` is put before /proc and /sys: "" but in tests. What cannot
// be read stays at its default: a container may hide any of it.
Processor ReadProcessor(const std::string& root);

// The full path of `program`, looked for as the shell does in `search_path` (a PATH); empty where
// there is none.
std::string FindProgram(const std::string& program, const std::string& search_path);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_MACHINE_H_
