#include "bench/models/cuda_timing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "absl/time/time.h"
#include "models/device/instant.h"

namespace sluice {
namespace {

constexpr int kRepeats = 20;

void Finish(Device& device, Stream stream) {
  const absl::Status status = device.Synchronize(stream, Instant::Now() + absl::Minutes(1));
  if (!status.ok()) Fail(status);
}

}  // namespace

void Fail(const absl::Status& status) {
  fmt::print(stderr, "{}\n", status.ToString());
  std::exit(1);
}

DeviceMemory RandomTensor(Device& device, Stream stream, DType dtype, int64_t n) {
  const int64_t bytes = n * SizeOf(dtype);
  const DeviceMemory host = OrFail(device.AllocateShared(bytes));
  std::minstd_rand random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(uniform(random));
    const auto narrow = static_cast<uint16_t>(bits >> 16);
    const bool is_narrow = dtype == DType::kBFloat16;
    std::memcpy(host.data() + i * SizeOf(dtype),
                is_narrow ? static_cast<const void*>(&narrow) : &bits,
                static_cast<size_t>(SizeOf(dtype)));
  }
  DeviceMemory memory = OrFail(device.Allocate(bytes));
  device.Copy(stream, memory.data(), host.data(), static_cast<size_t>(bytes));
  Finish(device, stream);
  return memory;
}

double Seconds(Device& device, Stream stream, const std::function<void()>& run) {
  const Event start = OrFail(device.NewEvent());
  const Event end = OrFail(device.NewEvent());
  double best = 1e9;
  for (int i = 0; i < kRepeats; ++i) {
    device.Record(start, stream);
    run();
    device.Record(end, stream);
    Finish(device, stream);
    best = std::min(best, absl::ToDoubleSeconds(device.Elapsed(start, end)));
  }
  return best;
}

}  // namespace sluice
