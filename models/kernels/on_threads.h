#ifndef SLUICE_MODELS_KERNELS_ON_THREADS_H_
#define SLUICE_MODELS_KERNELS_ON_THREADS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace sluice {

// Calls work(thread, i) once for every i below `count`: on the caller's thread, which is number 0,
// and on at most `threads` - 1 others, on fewer where the system starts no more. Whoever is done
// takes the next i. A thread that throws (memory has run out) takes no more; what it has thrown is
// thrown again once all have ended.
void OnThreads(int threads, size_t count, absl::FunctionRef<void(int thread, size_t i)> work);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_ON_THREADS_H_
