#include "models/kernels/on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "models/device/out_of_memory.h"

namespace sluice {

void OnThreads(int threads, size_t count, absl::FunctionRef<void(int thread, size_t i)> work) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // it may leave no thread but the caller's
  const auto take = [&](int thread) {
    try {
      for (size_t i = 0; (i = next.fetch_add(1)) < count;) work(thread, i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(threads, 1)));
  std::vector<std::thread> others;
  others.reserve(wanted);
  for (size_t i = 1; i < wanted; ++i) {
    std::thread thread;
    const auto body = [&take, i] { take(static_cast<int>(i)); };
    if (!StartThread("sharing out work", body, &thread).ok()) break;
    others.push_back(std::move(thread));
  }
  take(0);
  for (std::thread& thread : others) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace sluice
