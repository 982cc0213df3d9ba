#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_FIBER_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace sluice::emulation {

// A function that can stop in its middle and go on later, on a stack of its own. All fibers of a
// program run on the thread that resumes them, one at a time. AddressSanitizer is told of every
// change of stacks.
class Fiber {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes `body`, which has to live until it is done, what the next Resume begins with; the former
  // one is done, or never began.
  void Start(const std::function<void()>& body);
  // Runs until the body yields or returns.
  void Resume();
  // From the body: back to whoever resumed.
  void Yield();
  bool done() const { return done_; }

 private:
  static void Enter();
  void Run();
  // Goes on where `buffer` was set, which must be in another function.
  [[noreturn, gnu::noinline]] static void Jump(void** buffer) { __builtin_longjmp(buffer, 1); }

  static constexpr size_t kStackBytes = 256 << 10;
  static constexpr size_t kColours = 61, kColourBytes = 1088;
  const std::unique_ptr<char[]> stack_;
  size_t stack_bytes_;
  const std::function<void()>* body_ = nullptr;
  // Makes the stack's first frame; from then on the compiler's own jumps do: unlike swapcontext they
  // ask nothing of the kernel, and unlike longjmp they have no signals and no clean-ups to look after.
  ucontext_t first_ = {};
  bool entered_ = false;
  void* own_[5] = {};
  void* caller_[5] = {};
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  bool done_ = true;
};

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_FIBER_H_
