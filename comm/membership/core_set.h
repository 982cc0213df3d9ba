#ifndef SLUICE_COMM_MEMBERSHIP_CORE_SET_H_
#define SLUICE_COMM_MEMBERSHIP_CORE_SET_H_

#include <sched.h>

#include <bitset>
#include <string>
#include <vector>

namespace sluice {

// Cores of this machine, as the operating system numbers them; as many as a cpu_set_t has.
using CoreSet = std::bitset<1024>;

// In ascending order.
std::vector<int> CoreNumbers(const CoreSet& cores);
// "core 3", "cores 2, 3 and 7".
std::string CoreNames(const CoreSet& cores);

// As the operating system takes them.
cpu_set_t CpuSetOf(const CoreSet& cores);

// Cores that the calling thread may run on; none where the operating system does not say.
CoreSet UsableCores();
// Has the calling thread run on `cores` alone, and with it those that it starts later. False where
// that is refused.
bool KeepThreadTo(const CoreSet& cores);
// Likewise every thread of this process.
void KeepProcessTo(const CoreSet& cores);

}  // namespace sluice

#endif  // SLUICE_COMM_MEMBERSHIP_CORE_SET_H_
