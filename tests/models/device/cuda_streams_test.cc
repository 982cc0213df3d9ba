#include "models/device/cuda_streams.h"

#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

// Handles are only compared.
const char kPlaces[3] = {};
const void* const kFirst = &kPlaces[0];
const void* const kSecond = &kPlaces[1];
const void* const kUnknown = &kPlaces[2];

TEST(CudaStreams, AreKnownUntilTheyAreForgotten) {
  RememberStream(kFirst, 1);
  RememberStream(kSecond, 0);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(DeviceOfStream(kFirst), 1);
    EXPECT_EQ(DeviceOfStream(kSecond), 0);
    EXPECT_EQ(DeviceOfStream(kUnknown), -1);
  }
  ForgetStream(kFirst);
  EXPECT_EQ(DeviceOfStream(kFirst), -1);
  EXPECT_EQ(DeviceOfStream(kSecond), 0);
  ForgetStream(kSecond);
}

// A thread keeps its last answer, which must not outlive the stream.
TEST(CudaStreams, AHandleMayComeBackOnAnotherDevice) {
  RememberStream(kFirst, 1);
  EXPECT_EQ(DeviceOfStream(kFirst), 1);
  std::thread([] {
    ForgetStream(kFirst);
    RememberStream(kFirst, 2);
  }).join();
  EXPECT_EQ(DeviceOfStream(kFirst), 2);
  ForgetStream(kFirst);
}

}  // namespace
}  // namespace sluice
