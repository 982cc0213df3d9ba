#include "tests/models/kernels/cuda_emulation/fiber.h"

#include <ucontext.h>

#include <atomic>
#include <cstdlib>

#include "tests/sanitizers.h"

#ifdef SLUICE_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace sluice::emulation {
namespace {

#ifdef SLUICE_ADDRESS_SANITIZER
// `fake` keeps the stack that is left, or is null where it is left for good.
void LeaveStack(void** fake, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake, stack, bytes);
}
void EnterStack(void* fake, const void** former, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, former, bytes);
}
void ForgetStack(const char* stack, size_t bytes) { __asan_unpoison_memory_region(stack, bytes); }
#else
void LeaveStack(void**, const void*, size_t) {}
void EnterStack(void*, const void**, size_t*) {}
void ForgetStack(const char*, size_t) {}
#endif

// makecontext hands on no pointers.
thread_local Fiber* resumed = nullptr;

// Where this thread resumed a fiber.
struct Home {
  void* jump[5] = {};
  const void* stack = nullptr;
  size_t stack_bytes = 0;
  bool is_left = false;  // just now
};
thread_local Home home;

}  // namespace

// Stacks begin at different lines of the caches: with one offset in all pages, a warp's would evict
// each other at every change.
Fiber::Fiber() : stack_(new char[kStackBytes]) {
  static std::atomic<size_t> made = 0;
  stack_bytes_ = kStackBytes - made++ % kColours * kColourBytes;
}

void Fiber::Start(const Body& body) {
  body_ = &body;
  if (!entered_) ForgetStack(stack_.get(), kStackBytes);
}

// A context makes the stack's first frame; from then on the compiler's own jumps do: unlike
// swapcontext they ask nothing of the kernel, and unlike longjmp they have no signals and no
// clean-ups to look after.
void Fiber::Go() {
  if (entered_) Jump(own_);
  resumed = this;
  static thread_local ucontext_t first;  // not on this stack, which nothing comes back to clear
  getcontext(&first);
  first.uc_stack.ss_sp = stack_.get();
  first.uc_stack.ss_size = stack_bytes_;
  makecontext(&first, &Fiber::Enter, 0);
  setcontext(&first);
  std::abort();  // not reached
}

void Fiber::Arrive(void* fake) {
  const void* former = nullptr;
  size_t bytes = 0;
  EnterStack(fake, &former, &bytes);
  if (!home.is_left) return;
  home.stack = former;
  home.stack_bytes = bytes;
  home.is_left = false;
}

void Fiber::Resume() {
  void* fake = nullptr;
  home.is_left = true;
  LeaveStack(&fake, stack_.get(), stack_bytes_);
  if (__builtin_setjmp(home.jump) == 0) Go();
  EnterStack(fake, nullptr, nullptr);
}

void Fiber::Yield() {
  void* fake = nullptr;
  LeaveStack(&fake, home.stack, home.stack_bytes);
  if (__builtin_setjmp(own_) == 0) Jump(home.jump);
  Arrive(fake);
}

void Fiber::SwitchTo(Fiber& next) {
  void* fake = nullptr;
  LeaveStack(&fake, next.stack_.get(), next.stack_bytes_);
  if (__builtin_setjmp(own_) == 0) next.Go();
  Arrive(fake);
}

void Fiber::Enter() { resumed->Run(); }

// One body after another, on the same stack.
void Fiber::Run() {
  Arrive(nullptr);
  entered_ = true;
  for (;;) {
    Fiber* const next = (*body_)();
    next == nullptr ? Yield() : SwitchTo(*next);
  }
}

}  // namespace sluice::emulation
