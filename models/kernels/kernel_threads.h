#ifndef SLUICE_MODELS_KERNELS_KERNEL_THREADS_H_
#define SLUICE_MODELS_KERNELS_KERNEL_THREADS_H_

namespace sluice {

// Number of threads that kernels made or run by this thread use, until the end of the scope.
class KernelThreads {
 public:
  explicit KernelThreads(int threads);
  ~KernelThreads();
  KernelThreads(const KernelThreads&) = delete;
  KernelThreads& operator=(const KernelThreads&) = delete;

 private:
  const int before_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_KERNEL_THREADS_H_
