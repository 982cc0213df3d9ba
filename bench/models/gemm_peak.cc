#include "bench/models/gemm_peak.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <random>

#include "models/kernels/cpu/matmul.h"

namespace sluice {

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void* BenchBuffer(size_t bytes, DType dtype) {
  constexpr size_t kAlignment = 64;
  constexpr int kPattern = 4099;
  void* buffer = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  std::minstd_rand random(1);
  const auto width = static_cast<size_t>(SizeOf(dtype));
  float pattern[kPattern];
  for (float& value : pattern) value = static_cast<float>(random() % 2000) * 1e-3f - 1.0f;
  for (size_t i = 0; i < bytes / width; ++i) {
    const float value = pattern[i % kPattern];
    const char* from = reinterpret_cast<const char*>(&value) + sizeof(float) - width;
    std::copy(from, from + width, static_cast<char*>(buffer) + i * width);
  }
  return buffer;
}

double GemmPeak(DType dtype) {
  constexpr int64_t kSize = 1024;
  constexpr int kRuns = 60;
  const auto bytes = static_cast<size_t>(kSize * kSize) * sizeof(float);
  cpu::Matmul product({.m = kSize,
                       .k = kSize,
                       .n = kSize,
                       .a_dtype = dtype,
                       .b_dtype = dtype,
                       .c_dtype = dtype,
                       .b_packed = true});
  void* a = BenchBuffer(bytes, dtype);
  void* b = BenchBuffer(bytes, DType::kFloat32);
  void* packed = BenchBuffer(product.packed_bytes(), dtype);
  void* c = BenchBuffer(bytes, dtype);
  void* scratchpad = BenchBuffer(product.scratchpad_bytes(), dtype);
  product.Pack(static_cast<float*>(b), packed);
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const double start = ThreadSeconds();
    product.Run(a, packed, nullptr, nullptr, c, scratchpad);
    best = std::min(best, ThreadSeconds() - start);
  }
  for (void* buffer : {a, b, packed, c, scratchpad}) std::free(buffer);
  return 2.0 * kSize * kSize * kSize / best;
}

}  // namespace sluice
