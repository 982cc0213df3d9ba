#ifndef SLUICE_MODELS_KERNELS_KERNEL_THREADS_H_
#define SLUICE_MODELS_KERNELS_KERNEL_THREADS_H_

namespace sluice {

// Number of threads that kernels made or run by this thread use, until the end of the scope.
// From the first one on, handlers of signals that come to this thread run on a stack of their own
// if they ask for it (SA_ONSTACK), which those of any program that computes have to: products of
// oneDNN for processors without AVX-512 use the stack pointer as a pointer into their operands, and
// the kernel would write a handler's frame over whatever lies below.
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
