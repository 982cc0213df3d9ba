#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_FIBER_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_FIBER_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace sluice::emulation {

// A function that can stop in its middle and go on later, on a stack of its own. All fibers of a
// program run on the thread that resumes them, one at a time. AddressSanitizer is told of every
// change of stacks.
class Fiber {
 public:
  // Says at its end which fiber goes on; null: whoever resumed.
  using Body = std::function<Fiber*()>;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes `body`, which has to live until it ends, what runs next; the former one has ended, or
  // never began.
  void Start(const Body& body);
  // Runs until a fiber yields, or ends and names no other.
  void Resume();
  // From the body: back to whoever resumed.
  void Yield();
  // From the body: goes on with `next`, which began or was started.
  void SwitchTo(Fiber& next);

 private:
  static void Enter();
  void Run();
  // What comes after the change to this fiber's stack.
  static void Arrive(void* fake);
  // These do not return, which AddressSanitizer is not told: it would forget what it knows of a stack
  // that is left for a moment.
  [[gnu::no_sanitize_address, gnu::noinline]] void Go();
  // Goes on where `buffer` was set, which must be in another function.
  [[gnu::no_sanitize_address, gnu::noinline]] static void Jump(void** buffer) {
    __builtin_longjmp(buffer, 1);
  }

  static constexpr size_t kStackBytes = 256 << 10;
  static constexpr size_t kColours = 61, kColourBytes = 1088;
  const std::unique_ptr<char[]> stack_;
  size_t stack_bytes_;
  const Body* body_ = nullptr;
  bool entered_ = false;
  void* own_[5] = {};
};

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_FIBER_H_
