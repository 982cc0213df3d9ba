#ifndef SLUICE_SCHEDULES_OPTIMISE_PARALLEL_FOR_H_
#define SLUICE_SCHEDULES_OPTIMISE_PARALLEL_FOR_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace sluice {

// Calls body(i) for i = 0 ... count - 1, several at the same time, on oneTBB's threads. Where one of
// them throws, as an allocation does when memory runs out, those that have not begun are left out
// and the exception is thrown to the caller: oneTBB itself needs memory to do that. Where
// tbb::global_control allows one thread, oneTBB is not used.
void ParallelFor(size_t count, absl::FunctionRef<void(size_t)> body);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_OPTIMISE_PARALLEL_FOR_H_
