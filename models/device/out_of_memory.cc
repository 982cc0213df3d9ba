#include "models/device/out_of_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sluice {
namespace {

constexpr size_t kReserve = size_t{64} << 10U;  // below what malloc maps by itself
constexpr double kMiB = 1024.0 * 1024;
constexpr char kAdvice[] =
    "; take a smaller model, or smaller or fewer micro-batches, or raise the limit (ulimit -v, a "
    "container's)";

std::atomic<void*> reserve{nullptr};

absl::Status MemoryStatus(absl::string_view doing, absl::string_view wanted) {
  try {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory while ", doing, wanted, kAdvice));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

absl::Status ThreadStatus(absl::string_view doing) {
  try {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no thread could be started while ", doing,
        ": the system allows no more, or has no memory for one; ask for fewer ranks or threads, or "
        "raise the limit (ulimit -u, ulimit -v, a container's)"));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

// Threads that wait until all that can be started have been.
class Crowd {
 public:
  ~Crowd() {
    {
      const std::lock_guard lock(mutex_);
      leave_ = true;
    }
    left_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int Gather(int wanted) {
    threads_.reserve(static_cast<size_t>(wanted));
    for (int i = 0; i < wanted; ++i) {
      std::thread thread;
      if (!StartThread(
               "looking how many can be", [this] { Wait(); }, &thread)
               .ok())
        return i;
      threads_.push_back(std::move(thread));
    }
    return wanted;
  }

 private:
  void Wait() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return leave_; });
  }

  std::mutex mutex_;
  std::condition_variable left_;
  bool leave_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

absl::Status ExhaustedStatus(absl::string_view doing) {
  std::free(reserve.exchange(nullptr));
  try {
    throw;
  } catch (const OutOfMemory& error) {
    char wanted[64];  // what follows must not allocate more than it has to
    absl::SNPrintF(wanted, sizeof(wanted), " (%.2f MiB more were wanted)",
                   static_cast<double>(error.bytes()) / kMiB);
    // Of a small allocation the size says nothing: it was the last of many.
    return MemoryStatus(doing, error.bytes() < kReserve ? "" : wanted);
  } catch (const std::bad_alloc&) {
    return MemoryStatus(doing, "");
  } catch (const std::length_error&) {  // a vector of more elements than there is memory
    return MemoryStatus(doing, "");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) return ThreadStatus(doing);
    if (error.code() == std::errc::not_enough_memory) return MemoryStatus(doing, "");
    throw;
  } catch (const std::runtime_error& error) {
    // oneTBB's, which has no type of its own.
    if (absl::StartsWith(error.what(), "pthread_create has failed")) return ThreadStatus(doing);
    throw;
  }
}

absl::Status StartThread(absl::string_view what, std::function<void()> body, std::thread* thread) {
  return OrExhausted(what, [&] {
    *thread = std::thread(std::move(body));
    return absl::OkStatus();
  });
}

int StartableThreads(int wanted) {
  if (wanted <= 0) return 0;
  Crowd crowd;
  return crowd.Gather(wanted);
}

absl::Status CheckThreads(absl::string_view what, int wanted) {
  const int startable = StartableThreads(wanted);
  if (startable >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", wanted, " more threads, and the system starts ", startable,
                   "; ask for fewer ranks or threads, or raise the limit (ulimit -u, ulimit -v, a "
                   "container's)"));
}

bool HasAddressSpace(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes);
  return true;
}

void KeepMemoryForErrors() { std::free(reserve.exchange(std::malloc(kReserve))); }

}  // namespace sluice
