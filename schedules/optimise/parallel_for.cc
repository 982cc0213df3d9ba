#include "schedules/optimise/parallel_for.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <atomic>
#include <exception>
#include <mutex>

namespace sluice {

void ParallelFor(size_t count, absl::FunctionRef<void(size_t)> body) {
  if (tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism) == 1) {
    for (size_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  tbb::parallel_for(size_t{0}, count, [&](size_t i) {
    if (failed.load(std::memory_order_relaxed)) return;
    try {
      body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      failed.store(true, std::memory_order_relaxed);
    }
  });
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace sluice
