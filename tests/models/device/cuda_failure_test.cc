#include "models/device/cuda_failure.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(CudaFailure, TheFirstOneOfADeviceStays) {
  const CudaFailure device(3);
  EXPECT_TRUE(device.first().ok());
  CudaFailure::NoteForDevice(3, absl::InternalError("first"));
  CudaFailure::NoteForDevice(3, absl::InternalError("second"));
  EXPECT_EQ(device.first(), absl::InternalError("first"));
}

TEST(CudaFailure, IsOfOneDeviceOnly) {
  const CudaFailure failed(0);
  const CudaFailure sound(1);
  CudaFailure::NoteForDevice(0, absl::InternalError("lost"));
  EXPECT_FALSE(failed.first().ok());
  EXPECT_TRUE(sound.first().ok());
}

// Two ranks of one process on one GPU have a device each.
TEST(CudaFailure, ReachesAllThatAreOpenOnADevice) {
  const CudaFailure one(0);
  const CudaFailure other(0);
  CudaFailure::NoteForDevice(0, absl::InternalError("lost"));
  EXPECT_EQ(one.first(), other.first());
  EXPECT_FALSE(one.first().ok());
}

TEST(CudaFailure, ADeviceThatIsOpenedAgainBeginsWithoutOne) {
  {
    const CudaFailure before(0);
    CudaFailure::NoteForDevice(0, absl::InternalError("lost"));
  }
  CudaFailure::NoteForDevice(0, absl::InternalError("of nobody"));
  EXPECT_TRUE(CudaFailure(0).first().ok());
}

}  // namespace
}  // namespace sluice
