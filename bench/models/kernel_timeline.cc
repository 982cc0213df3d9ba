// What a GPU did when: a library that CUDA loads into any program, which then writes one line per
// kernel, copy and fill: start and end in ns, stream, name. The kernels are not changed or made to
// wait for each other, unlike under ncu.
//   CUDA_INJECTION64_PATH=libkernel_timeline.so KERNEL_TIMELINE=FILE program ...
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t kBufferBytes = size_t{8} << 20;

// Open until the process ends.
std::FILE* Out() {
  static std::FILE* const out = [] {
    const char* name = std::getenv("KERNEL_TIMELINE");
    return name == nullptr ? nullptr : std::fopen(name, "w");
  }();
  return out;
}

void Write(uint64_t start, uint64_t end, uint32_t stream, const char* name) {
  if (Out() == nullptr) return;
  std::fprintf(Out(), "%llu,%llu,%u,%s\n", static_cast<unsigned long long>(start),
               static_cast<unsigned long long>(end), stream, name);
}

void Write(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      return Write(kernel.start, kernel.end, kernel.streamId, kernel.name);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      return Write(copy.start, copy.end, copy.streamId, "copy");
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      return Write(fill.start, fill.end, fill.streamId, "fill");
    }
    default:
      return;
  }
}

void CUPTIAPI Ask(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most = 0;
}

void CUPTIAPI Take(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) Write(*record);
  std::free(buffer);
}

void Flush() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (Out() != nullptr) std::fflush(Out());
}

}  // namespace

// CUDA calls it when the program first uses it.
extern "C" int InitializeInjection() {
  cuptiActivityRegisterCallbacks(Ask, Take);
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS) {
      std::fprintf(stderr, "kernel_timeline: CUPTI refuses to record\n");
      return 0;
    }
  }
  std::atexit(Flush);
  return 1;
}
