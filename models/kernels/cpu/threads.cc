#include "models/kernels/cpu/threads.h"

#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>

#include "models/kernels/kernel_threads.h"

namespace sluice::cpu {
namespace {

// Makes what one thread has written visible to another, as OpenMP's barriers do, in a way that
// ThreadSanitizer sees: it does not know libgomp's.
class Handover {
 public:
  void Give() { count_.fetch_add(1, std::memory_order_release); }
  void Take() const { (void)count_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> count_ = 0;
};

// What the threads of a region share: OpenMP hands over one pointer to it.
struct Region {
  absl::FunctionRef<void(int, int)> body;
  int threads;
  Handover begin, end;
  std::mutex mutex = {};
  std::exception_ptr failure = nullptr;
};

void Run(Region& region) {
#pragma omp parallel num_threads(region.threads)
  {
    region.begin.Take();
    try {
      region.body(omp_get_thread_num(), omp_get_num_threads());
    } catch (...) {  // oneDNN had no memory; an exception may not leave a region
      const std::lock_guard lock(region.mutex);
      region.failure = std::current_exception();
    }
    region.end.Give();
  }
}

}  // namespace

int ThreadsNow() { return omp_get_max_threads(); }

void OnThreads(int threads, absl::FunctionRef<void(int thread, int count)> body) {
  if (threads <= 1) {
    body(0, 1);
    return;
  }
  Region region = {.body = body, .threads = threads, .begin = {}, .end = {}};
  region.begin.Give();
  Run(region);
  region.end.Take();
  if (region.failure != nullptr) std::rethrow_exception(region.failure);
}

void DivideAmongThreads(int64_t n, int64_t grain,
                        absl::FunctionRef<void(int64_t first, int64_t count)> body) {
  const int64_t grains = (n + grain - 1) / grain;
  const auto threads = static_cast<int>(std::min<int64_t>(ThreadsNow(), grains));
  if (threads <= 1) {
    if (n > 0) body(0, n);
    return;
  }
  OnThreads(threads, [&](int thread, int count) {
    const auto bound = [&](int64_t index) { return std::min(n, grains * index / count * grain); };
    const int64_t first = bound(thread), end = bound(thread + 1);
    if (first < end) body(first, end - first);
  });
}

}  // namespace sluice::cpu

namespace sluice {
namespace {

// The calling thread's, for handlers of signals, unless it has one already.
class SignalStack {
 public:
  SignalStack() {
    stack_t before = {};
    if (sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
    // The kernel saves all registers there, and a handler may walk over the thread's frames.
    const size_t bytes = static_cast<size_t>(sysconf(_SC_MINSIGSTKSZ)) + (size_t{64} << 10U);
    memory_ = std::make_unique<char[]>(bytes);
    const stack_t own = {.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = bytes};
    sigaltstack(&own, nullptr);
  }
  ~SignalStack() {
    if (memory_ == nullptr) return;
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
};

}  // namespace

KernelThreads::KernelThreads(int threads) : before_(omp_get_max_threads()) {
  static thread_local const SignalStack for_signals;
  omp_set_num_threads(threads);
}
KernelThreads::~KernelThreads() { omp_set_num_threads(before_); }

}  // namespace sluice
