#ifndef SLUICE_PIPELINE_COMPILE_MEMORY_MEMORY_PLAN_H_
#define SLUICE_PIPELINE_COMPILE_MEMORY_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "pipeline/compile/plan/program.h"

namespace sluice {

// Every tensor starts on a cache line, which is also the widest vector.
inline constexpr int64_t kAlignment = 64;
constexpr int64_t AlignUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where each buffer lies; two buffers share bytes only when their lives do not meet.
struct BufferLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // end of the highest buffer
};

// Packs buffers into as few bytes as it can (the problem, dynamic storage allocation, is NP-hard):
// the best of two placements, best fit in the order of time and, up to a few thousand buffers,
// lowest fit in the order of size. Deterministic.
BufferLayout PackBuffers(absl::Span<const Buffer> buffers);

// The most bytes alive at one instruction, aligned: no layout is smaller.
int64_t PeakLiveBytes(absl::Span<const Buffer> buffers);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_MEMORY_MEMORY_PLAN_H_
