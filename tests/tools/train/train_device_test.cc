#include "tools/train/train_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/nccl/fake_nccl.h"
#include "tests/pipeline/fake_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

OpenDevice Fakes(const FakeDevice::Options& options) {
  return [options](int, const DeviceAllocator& allocator) {
    FakeDevice::Options with = options;
    with.allocator = allocator;
    return std::make_unique<FakeDevice>(with);
  };
}

TEST(RunDevices, NeighboursShareADeviceWhereThereAreTooFew) {
  const RunPlan plan = FakePlan({.ranks = 4});
  for (const int count : {1, 2, 3, 4, 9}) {
    int opened = 0;
    absl::StatusOr<std::unique_ptr<RunDevices>> run =
        RunDevices::ForThreads(plan, count, [&opened](int number, const DeviceAllocator&) {
          EXPECT_EQ(number, opened++);
          return std::make_unique<FakeDevice>();
        });
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(opened, std::min(count, 4));
    ASSERT_EQ((*run)->ranks().size(), 4U);
    int changes = 1;
    for (size_t rank = 1; rank < 4; ++rank)
      changes += (*run)->ranks()[rank].device != (*run)->ranks()[rank - 1].device ? 1 : 0;
    EXPECT_EQ(changes, opened);
  }
}

void ExpectTheCpusBits(const SmallRun& run, const RunPlan& plan,
                       const absl::StatusOr<std::unique_ptr<RunDevices>>& devices) {
  ASSERT_TRUE(devices.ok()) << devices.status();
  TrainOptions options = SmallOptions(2);
  options.running.devices = (*devices)->ranks();
  absl::StatusOr<Outcome> outcome = Train(plan, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(run, 2));
}

TEST(RunDevices, TrainToTheCpusBits) {
  const SmallRun run{.schedule = "zb-h1", .ranks = 3};
  const RunPlan plan = FakePlan(run);
  absl::StatusOr<std::unique_ptr<RunDevices>> devices =
      RunDevices::ForThreads(plan, 2, Fakes({.longest_pause = absl::Microseconds(50)}));
  ExpectTheCpusBits(run, plan, devices);
}

// Every rank's arena is memory that NCCL has allocated, registered with each of its edges, and
// freed after the edges have deregistered it; a library without such memory has none of this.
TEST(RunDevices, OverNcclTensorsLieWhereItCanReachThem) {
  const SmallRun run{.schedule = "1f1b", .ranks = 3};
  const RunPlan plan = FakePlan(run);
  for (const bool has_memory : {true, false}) {
    FakeNccl nccl({.has_memory = has_memory});
    {
      absl::StatusOr<std::unique_ptr<RunDevices>> devices =
          RunDevices::OverNccl(plan, {0, 1, 2}, 0, 3, Fakes({}),
                               {.nccl = &nccl, .timeout = absl::Seconds(60), .host = "a host"});
      ExpectTheCpusBits(run, plan, devices);
    }
    constexpr int kEnds = 2 * 4;  // two for each edge between neighbours
    EXPECT_EQ(nccl.registered(), has_memory ? kEnds : 0);
    EXPECT_EQ(nccl.allocated(), 0U);
    EXPECT_EQ(nccl.open(), 0);
    EXPECT_EQ(nccl.aborted(), 0);
  }
}

TEST(RunDevices, ArenasThatDoNotFitAreNoPlan) {
  const RunPlan plan = FakePlan({.ranks = 2});
  const int64_t both = plan.arenas[0].memory.total + plan.arenas[1].memory.total;
  EXPECT_TRUE(RunDevices::ForThreads(plan, 1, Fakes({.memory = both})).ok());
  const absl::Status status = RunDevices::ForThreads(plan, 1, Fakes({.memory = both - 1})).status();
  EXPECT_EQ(ExitCodeOf(status), kExitNoPlan);
  EXPECT_THAT(MessageOf(status), AllOf(HasSubstr("rank 0: "), HasSubstr("rank 1: "),
                                       HasSubstr("parameters"), HasSubstr("within a step")));
}

TEST(CheckDeviceMemory, SaysWhatFewerLogitsAtATimeWouldSave) {
  RunRequest request = FakeRequest({.ranks = 2});
  request.batch = {.size = 4, .seq = 64};
  DecoderConfig config = *request.spec.decoder();
  config.max_seq = 64;
  config.vocab = 4096;
  request.spec.config = config;
  const RunPlan plan = *CompileRun(request);
  const auto lacks_a_byte = [&plan](int rank) {
    const int64_t bytes = plan.arenas[static_cast<size_t>(rank)].memory.total;
    const FakeDevice device({.memory = bytes - 1});
    return MessageOf(CheckDeviceMemory(plan, {rank}, device));
  };
  EXPECT_THAT(lacks_a_byte(1),
              HasSubstr("or --recompute full. The logits of 256 tokens at a time "
                        "take 4.00 MiB of it; with --head-rows 32 they take 512 KiB"));
  EXPECT_THAT(lacks_a_byte(0), EndsWith("or --recompute full"));  // has no head
}

TEST(RunDevices, WhatADeviceSaysIsPassedOn) {
  const absl::Status status =
      RunDevices::ForThreads(FakePlan({.ranks = 2}), 0, [](int, const DeviceAllocator&) {
        return absl::StatusOr<std::unique_ptr<Device>>(absl::FailedPreconditionError("no GPU"));
      }).status();
  EXPECT_EQ(ExitCodeOf(status), kExitBadInput);
  EXPECT_EQ(MessageOf(status), "no GPU");
}

}  // namespace
}  // namespace sluice
