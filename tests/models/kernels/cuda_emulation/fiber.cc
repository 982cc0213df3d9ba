#include "tests/models/kernels/cuda_emulation/fiber.h"

#include <atomic>

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

}  // namespace

// Stacks begin at different lines of the caches: with one offset in all pages, a warp's would evict
// each other at every change.
Fiber::Fiber() : stack_(new char[kStackBytes]) {
  static std::atomic<size_t> made = 0;
  stack_bytes_ = kStackBytes - made++ % kColours * kColourBytes;
}

void Fiber::Start(const std::function<void()>& body) {
  body_ = &body;
  done_ = false;
  if (entered_) return;
  ForgetStack(stack_.get(), kStackBytes);
  getcontext(&first_);
  first_.uc_stack.ss_sp = stack_.get();
  first_.uc_stack.ss_size = stack_bytes_;
  first_.uc_link = nullptr;
  makecontext(&first_, &Fiber::Enter, 0);
}

void Fiber::Resume() {
  void* fake = nullptr;
  LeaveStack(&fake, stack_.get(), stack_bytes_);
  if (__builtin_setjmp(caller_) == 0) {
    if (entered_) Jump(own_);
    resumed = this;
    setcontext(&first_);
  }
  EnterStack(fake, nullptr, nullptr);
}

void Fiber::Yield() {
  void* fake = nullptr;
  LeaveStack(&fake, caller_stack_, caller_stack_bytes_);
  if (__builtin_setjmp(own_) == 0) Jump(caller_);
  EnterStack(fake, &caller_stack_, &caller_stack_bytes_);
}

void Fiber::Enter() { resumed->Run(); }

// One body after another, on the same stack.
void Fiber::Run() {
  EnterStack(nullptr, &caller_stack_, &caller_stack_bytes_);
  entered_ = true;
  for (;;) {
    (*body_)();
    done_ = true;
    Yield();
  }
}

}  // namespace sluice::emulation
