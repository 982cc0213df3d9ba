#ifndef SLUICE_MODELS_KERNELS_CPU_THREADS_H_
#define SLUICE_MODELS_KERNELS_CPU_THREADS_H_

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"

// How the CPU's kernels use several OpenMP threads. The number of threads never changes a result:
// they divide values that are computed independently of each other, never a sum.
namespace sluice::cpu {

// Values that are worth a thread: starting one takes as long as computing some thousands.
constexpr int64_t kValuesOfThread = 16384;

// Rows of `dim` values that are worth a thread.
constexpr int64_t RowsOfThread(int64_t dim) {
  return std::max<int64_t>(1, kValuesOfThread / std::max<int64_t>(1, dim));
}

// Columns of `rows` values that are worth a thread, as whole cache lines.
constexpr int64_t ColumnsOfThread(int64_t rows) {
  constexpr int64_t kLine = 64;
  return std::max(kLine, RowsOfThread(rows) / kLine * kLine);
}

// The number of threads that kernels called by this thread may use.
int ThreadsNow();

// Calls body(thread, count) once on each of `count` threads at the same time: on `threads` of them,
// or on fewer where OpenMP gives no more. What one of them throws is thrown to the caller.
void OnThreads(int threads, absl::FunctionRef<void(int thread, int count)> body);

// Calls body(first, count) for ranges that together are 0 ... n - 1, each on a thread of its own;
// they begin at multiples of `grain`, and there are at most ThreadsNow() of them.
void DivideAmongThreads(int64_t n, int64_t grain,
                        absl::FunctionRef<void(int64_t first, int64_t count)> body);

}  // namespace sluice::cpu

#endif  // SLUICE_MODELS_KERNELS_CPU_THREADS_H_
