// What `sluice profile` measures, on a CPU and on a device that does its work later.
#include "partitioner/planning/profiling/layer_timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "partitioner/planning/profiling/device_link.h"
#include "partitioner/planning/profiling/stream_stopwatch.h"
#include "tests/models/fake_device.h"
#include "tests/models/layers/test_models.h"

namespace sluice {
namespace {

const BatchShape kBatch = {2, 5};
ModelSpec Model() { return {"gpt", TinyGpt(false)}; }

constexpr double kLongest = 60;  // seconds; no part of a small layer takes that long on any machine

std::vector<Timing> PartsOf(const LayerTimings& layer) {
  return {layer.forward,          layer.input_grad,        layer.weight_grad, layer.restore,
          layer.apart_input_grad, layer.apart_weight_grad, layer.update};
}

void ExpectPlausible(const absl::StatusOr<std::vector<LayerTimings>>& timings, size_t layers) {
  ASSERT_TRUE(timings.ok()) << timings.status();
  ASSERT_EQ(timings->size(), layers);
  for (const LayerTimings& layer : *timings) {
    EXPECT_GT(layer.forward.least, 0);
    for (const Timing& part : PartsOf(layer)) {
      EXPECT_GE(part.least, 0);
      EXPECT_LE(part.least, part.median);
      EXPECT_LT(part.median, kLongest);
    }
  }
}

TEST(LayerTiming, MeasuresEveryLayerOnTheCpu) {
  const ModelSpec spec = Model();
  ExpectPlausible(TimeLayers(spec, kBatch, {.stages = 2, .repetitions = 2}),
                  static_cast<size_t>(spec.layer_count()));
}

TEST(LayerTiming, MeasuresTheUpdateOfWhatIsTiedApart) {
  const auto tied = TimeLayers({"gpt", TinyGpt(true)}, kBatch, {.repetitions = 2});
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_GT(tied->back().tied_update.least, 0);
  EXPECT_LE(tied->back().tied_update.least, tied->back().update.least);
  EXPECT_LE(tied->back().tied_update.median, tied->back().update.median);
  EXPECT_EQ(tied->front().tied_update.median, 0);
  EXPECT_GT(tied->back().tied_sum.least, 0);
  EXPECT_EQ(tied->front().tied_sum.median, 0);
  const auto untied = TimeLayers(Model(), kBatch, {.repetitions = 2});
  ASSERT_TRUE(untied.ok()) << untied.status();
  EXPECT_EQ(untied->back().tied_update.median, 0);
  EXPECT_EQ(untied->back().tied_sum.median, 0);
  // Of a frozen table there is none.
  LayerTimingOptions options;
  options.repetitions = 2;
  options.adaptation.freeze = {"transformer.w?e*"};
  const auto frozen = TimeLayers({"gpt", TinyGpt(true)}, kBatch, options);
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  EXPECT_EQ(frozen->back().tied_update.median, 0);
  EXPECT_EQ(frozen->back().tied_sum.median, 0);
}

TEST(LayerTiming, MeasuresEveryLayerOnADevice) {
  const ModelSpec spec = Model();
  FakeDevice device({.longest_pause = absl::Microseconds(50)});
  ExpectPlausible(
      TimeLayers(spec, kBatch, {.repetitions = 2, .kernels = &FakeKernels(), .device = &device}),
      static_cast<size_t>(spec.layer_count()));
  EXPECT_EQ(device.allocated(), 0);
}

// The time of a layer is that of the device, not of the host, which has continued long before.
TEST(LayerTiming, AStopwatchMeasuresWhatTheDeviceDoes) {
  FakeDevice device;
  const Stream stream = *device.NewStream();
  StreamStopwatch stopwatch(&device, stream);
  std::vector<double> slow, quick;
  stopwatch.Measure(
      [&] { FakeDevice::Queue(stream, [] { absl::SleepFor(absl::Milliseconds(20)); }); }, &slow);
  stopwatch.Measure([] {}, &quick);
  EXPECT_TRUE(slow.empty());
  ASSERT_TRUE(stopwatch.Collect(absl::Seconds(60)).ok());
  ASSERT_EQ(slow.size(), 1U);
  ASSERT_EQ(quick.size(), 1U);
  EXPECT_GE(slow[0], 0.02);
  EXPECT_GE(quick[0], 0);
}

TEST(LayerTiming, WhatADeviceLacksIsAnError) {
  FakeDevice small({.memory = 100});
  const LayerTimingOptions on_small = {.kernels = &FakeKernels(), .device = &small};
  EXPECT_TRUE(absl::IsResourceExhausted(TimeLayers(Model(), kBatch, on_small).status()));
  FakeDevice lost;
  lost.Lose(absl::UnavailableError("it fell off"));
  const LayerTimingOptions on_lost = {.kernels = &FakeKernels(), .device = &lost};
  EXPECT_TRUE(absl::IsUnavailable(TimeLayers(Model(), kBatch, on_lost).status()));
  FakeDevice without_events({.events = 3});
  const LayerTimingOptions on_those = {.kernels = &FakeKernels(), .device = &without_events};
  EXPECT_TRUE(absl::IsResourceExhausted(TimeLayers(Model(), kBatch, on_those).status()));
}

TEST(DeviceLink, IsMeasuredByTheDevicesClock) {
  FakeDevice device;
  const absl::StatusOr<Link> link = MeasureDeviceLink(&device);
  ASSERT_TRUE(link.ok()) << link.status();
  EXPECT_GT(link->latency, 0);
  EXPECT_GT(link->bandwidth, 1e6);
  EXPECT_EQ(device.allocated(), 0);
}

}  // namespace
}  // namespace sluice
