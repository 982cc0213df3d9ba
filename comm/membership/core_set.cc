#include "comm/membership/core_set.h"

#include <dirent.h>

#include <cstddef>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

static_assert(CoreSet().size() == CPU_SETSIZE);

bool Keep(pid_t thread, const CoreSet& cores) {
  const cpu_set_t set = CpuSetOf(cores);
  return sched_setaffinity(thread, sizeof(set), &set) == 0;
}

}  // namespace

std::vector<int> CoreNumbers(const CoreSet& cores) {
  std::vector<int> numbers;
  for (size_t core = 0; core < cores.size(); ++core) {
    if (cores.test(core)) numbers.push_back(static_cast<int>(core));
  }
  return numbers;
}

std::string CoreNames(const CoreSet& cores) {
  std::vector<int> numbers = CoreNumbers(cores);
  if (numbers.size() == 1) return absl::StrCat("core ", numbers.front());
  if (numbers.empty()) return "no core";
  const int last = numbers.back();
  numbers.pop_back();
  return absl::StrCat("cores ", absl::StrJoin(numbers, ", "), " and ", last);
}

cpu_set_t CpuSetOf(const CoreSet& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : CoreNumbers(cores)) CPU_SET(core, &set);
  return set;
}

CoreSet UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CoreSet cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (size_t core = 0; core < cores.size(); ++core) cores.set(core, CPU_ISSET(core, &set) != 0);
  return cores;
}

bool KeepThreadTo(const CoreSet& cores) { return Keep(0, cores); }

void KeepProcessTo(const CoreSet& cores) {
  KeepThreadTo(cores);  // first, since what it starts meanwhile has its cores
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  if (tasks == nullptr) return;
  while (const dirent* entry = readdir(tasks.get())) {
    int thread = 0;
    if (absl::SimpleAtoi(entry->d_name, &thread)) Keep(thread, cores);
  }
}

}  // namespace sluice
