#ifndef SLUICE_MODELS_DEVICE_OUT_OF_MEMORY_H_
#define SLUICE_MODELS_DEVICE_OUT_OF_MEMORY_H_

#include <cstddef>
#include <exception>
#include <functional>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// What an allocation throws that knows how much was wanted.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(size_t bytes) : bytes_(bytes) {}
  const char* what() const noexcept override { return "out of memory"; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
};

// For a handler `catch (...)`: ResourceExhausted where memory or threads have run out. It says what
// was being done ("training") and, where known, how much was wanted. Where not even its words can
// be allocated, its message is empty. Any other exception is thrown again.
absl::Status ExhaustedStatus(absl::string_view doing);

// Calls `body`, which returns a Status or a StatusOr. Exceptions that say that memory or threads
// have run out end here and become statuses: the functions of the rooms do not throw. To be used
// where a thread begins, and where others have to be told of the failure.
template <typename Body>
std::invoke_result_t<Body> OrExhausted(absl::string_view doing, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return ExhaustedStatus(doing);
  }
}

// Starts `*thread`. ResourceExhausted where the system allows no more threads, or has no memory for
// one; `*thread` is then as it was.
absl::Status StartThread(absl::string_view what, std::function<void()> body, std::thread* thread);

// How many threads, up to `wanted`, can exist at the same time beside those there are. They are
// started to find out, and have ended on return. For libraries that end the process where they
// cannot start a thread.
int StartableThreads(int wanted);
// ResourceExhausted where fewer than `wanted` can.
absl::Status CheckThreads(absl::string_view what, int wanted);

// Whether `bytes` of address space are left, for libraries that do not check what they allocate.
bool HasAddressSpace(size_t bytes);

// Sets some memory aside that the first ExhaustedStatus gives back, for what then has to be said.
// To be called once, when the program begins.
void KeepMemoryForErrors();

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_OUT_OF_MEMORY_H_
