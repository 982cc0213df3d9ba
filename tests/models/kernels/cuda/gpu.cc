#include "tests/models/kernels/cuda/gpu.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "absl/time/time.h"
#include "models/device/cuda_device.h"
#include "models/device/instant.h"
#include "models/kernels/cuda_kernels.h"
#include "tests/models/kernels/reachable.h"

namespace sluice {
namespace {

class NeedsGpu : public testing::Environment {
 public:
  void SetUp() override {
    if (CudaDeviceCount() == 0) GTEST_SKIP() << "no GPU here";
    const absl::Status status = PrepareCudaKernels();
    if (!status.ok()) GTEST_SKIP() << status;
  }
};

[[maybe_unused]] const auto* const kEnvironment = testing::AddGlobalTestEnvironment(new NeedsGpu);

struct Shared {
  std::mutex mutex;
  std::map<void*, DeviceMemory> memory;
};

// Never destroyed: tensors may outlive whatever is.
Shared& AllShared() {
  static auto* const shared = new Shared;
  return *shared;
}

}  // namespace

Device& Gpu() {
  static Device* const device = OpenCudaDevice(0)->release();
  return *device;
}

Stream GpuStream() {
  static const Stream stream = *Gpu().NewStream();
  return stream;
}

void FinishOnGpu(Stream stream) {
  const absl::Status status = Gpu().Synchronize(stream, Instant::Now() + absl::Seconds(60));
  EXPECT_TRUE(status.ok()) << status;
}

void* AllocateReachable(size_t bytes) {
  DeviceMemory memory = *Gpu().AllocateShared(static_cast<int64_t>(bytes));
  void* const data = memory.data();
  const std::lock_guard lock(AllShared().mutex);
  AllShared().memory[data] = std::move(memory);
  return data;
}

void FreeReachable(void* memory) {
  const std::lock_guard lock(AllShared().mutex);
  AllShared().memory.erase(memory);
}

}  // namespace sluice
