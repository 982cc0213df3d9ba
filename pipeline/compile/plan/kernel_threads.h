#ifndef SLUICE_PIPELINE_COMPILE_PLAN_KERNEL_THREADS_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_KERNEL_THREADS_H_

#include <omp.h>

namespace sluice {

// Number of threads that kernels made or run by this thread use, until the end of the scope.
class KernelThreads {
 public:
  explicit KernelThreads(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~KernelThreads() { omp_set_num_threads(before_); }
  KernelThreads(const KernelThreads&) = delete;
  KernelThreads& operator=(const KernelThreads&) = delete;

 private:
  const int before_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_KERNEL_THREADS_H_
