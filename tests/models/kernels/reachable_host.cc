#include <new>

#include "tests/models/kernels/reachable.h"

namespace sluice {

constexpr std::align_val_t kAlignment{64};

void* AllocateReachable(size_t bytes) { return ::operator new(bytes, kAlignment); }
void FreeReachable(void* memory) { ::operator delete(memory, kAlignment); }

}  // namespace sluice
