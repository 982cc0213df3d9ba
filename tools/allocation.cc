// The program's `operator new`: that of the standard library, but what it throws says how much was
// wanted. All other forms of `new` and `delete` end in these or belong to malloc.
// Not inlined: where only one of a pair is, GCC takes `free` for the wrong end of `new`.
#include <cstdlib>
#include <new>

#include "models/device/out_of_memory.h"

namespace {

void* OrThrow(void* memory, std::size_t bytes) {
  if (memory == nullptr) throw sluice::OutOfMemory(bytes);
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return OrThrow(std::malloc(bytes == 0 ? 1 : bytes), bytes);
}

[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  const std::size_t rounded = bytes == 0 ? step : (bytes + step - 1) / step * step;
  return OrThrow(rounded < bytes ? nullptr : std::aligned_alloc(step, rounded), bytes);
}

[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
