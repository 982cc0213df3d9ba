#include "models/device/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "absl/time/time.h"
#include "models/device/instant.h"

namespace sluice {
namespace {

Instant Soon() { return Instant::Now() + absl::Seconds(20); }

TEST(CudaDeviceTest, AnOrdinalThatIsNotThereIsRefused) {
  for (const int ordinal : {-1, CudaDeviceCount()}) {
    const auto device = OpenCudaDevice(ordinal);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition) << device.status();
  }
}

class CudaDeviceOnGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaDeviceCount() == 0) GTEST_SKIP() << "no GPU here";
    auto device = OpenCudaDevice(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    stream_ = *device_->NewStream();
  }

  // `n` bytes of the device's, in the host's memory.
  std::vector<char> Read(const std::byte* from, size_t n) {
    const DeviceMemory shared = *device_->AllocateShared(static_cast<int64_t>(n));
    device_->Copy(stream_, shared.data(), from, n);
    EXPECT_TRUE(device_->Synchronize(stream_, Soon()).ok());
    std::vector<char> bytes(n);
    std::memcpy(bytes.data(), shared.data(), n);
    return bytes;
  }

  std::unique_ptr<Device> device_;
  Stream stream_;
};

TEST_F(CudaDeviceOnGpuTest, MemoryIsZeroedAndAligned) {
  for (const int64_t bytes : {0, 1, 1000, 10'000'000}) {
    const auto memory = device_->Allocate(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 256, 0);
    const auto n = static_cast<size_t>(bytes);
    EXPECT_EQ(Read(memory->data(), n), std::vector<char>(n, 0));
  }
}

TEST_F(CudaDeviceOnGpuTest, MoreThanThereIsSaysBoth) {
  const auto memory = device_->Allocate(int64_t{1} << 50);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()), testing::HasSubstr("are free"));
  EXPECT_TRUE(device_->Synchronize(stream_, Soon()).ok()) << "the device goes on";
  EXPECT_TRUE(device_->Allocate(1000).ok());
}

TEST_F(CudaDeviceOnGpuTest, AnEventOrdersStreamsAndTellsTime) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  const DeviceMemory from = *device_->Allocate(kBytes), middle = *device_->Allocate(kBytes);
  const DeviceMemory shared = *device_->AllocateShared(1);
  const Stream other = *device_->NewStream();
  const Event start = *device_->NewEvent(), end = *device_->NewEvent();
  const Event never = *device_->NewEvent();
  shared.data()[0] = std::byte{42};
  device_->Wait(stream_, never);  // at once
  device_->Record(start, stream_);
  for (int i = 0; i < 4; ++i) device_->Copy(stream_, middle.data(), from.data(), size_t{kBytes});
  device_->Copy(stream_, middle.data() + kBytes - 1, shared.data(), 1);
  device_->Record(end, stream_);
  device_->Wait(other, end);
  const DeviceMemory result = *device_->AllocateShared(1);
  device_->Copy(other, result.data(), middle.data() + kBytes - 1, 1);
  ASSERT_TRUE(device_->Synchronize(other, Soon()).ok());
  EXPECT_EQ(result.data()[0], std::byte{42});
  EXPECT_GT(device_->Elapsed(start, end), absl::ZeroDuration());
}

// Asked for once as ever and once to be captured; then done again without being asked for.
TEST_F(CudaDeviceOnGpuTest, WorkThatComesAgainIsReplayed) {
  for (const bool graphs : {false, true}) {
    const auto device = *OpenCudaDevice(0, {.graphs = graphs});
    const Stream stream = *device->NewStream();
    const DeviceMemory from = *device->AllocateShared(1), to = *device->AllocateShared(1);
    const DeviceMemory middle = *device->Allocate(1);
    Recording recording;
    int asked = 0;
    for (int i = 1; i <= 4; ++i) {
      from.data()[0] = static_cast<std::byte>(i);
      device->Repeat(stream, &recording, [&] {
        ++asked;
        device->Copy(stream, middle.data(), from.data(), 1);
        device->Copy(stream, to.data(), middle.data(), 1);
      });
      ASSERT_TRUE(device->Synchronize(stream, Soon()).ok());
      EXPECT_EQ(to.data()[0], static_cast<std::byte>(i));
    }
    EXPECT_EQ(asked, graphs ? 2 : 4);
  }
}

TEST_F(CudaDeviceOnGpuTest, AnyThreadMayCall) {
  const DeviceMemory memory = *device_->Allocate(4);
  std::thread([&] {
    const DeviceMemory shared = *device_->AllocateShared(4);
    std::memset(shared.data(), 7, 4);
    device_->Copy(stream_, memory.data(), shared.data(), 4);
    EXPECT_TRUE(device_->Synchronize(stream_, Soon()).ok());
  }).join();
  EXPECT_EQ(Read(memory.data(), 4), std::vector<char>(4, 7));
}

}  // namespace
}  // namespace sluice
