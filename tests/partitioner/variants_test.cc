// What more memory and faster links would change, beside the plan that there is.
#include "partitioner/planning/answer/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/spec/presets.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/planning/answer/search.h"
#include "tests/partitioner/small_gpt.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

// Two fast devices and two slow ones, in nodes that are far from each other.
PlanQuestion OfTwoKinds() {
  DeviceSpec device;
  device.name = "fast";
  device.fp32_flops = device.bf16_flops = 1e14;
  device.memory_bandwidth = 1e13;
  device.memory_bytes = int64_t{8} << 30;
  ClusterSpec cluster = UniformCluster(device, 2);
  device.name = "slow";
  device.fp32_flops = device.bf16_flops = 4e13;
  cluster.devices.push_back(device);
  cluster.counts.push_back(2);
  cluster.devices_per_node = 2;
  cluster.inside = {.bandwidth = 1e12};
  cluster.between = {.bandwidth = 1e9};
  PlanQuestion question;
  question.model = "gpt2";
  question.subject = *PresetModel("gpt2");
  question.cluster = cluster;
  question.devices = cluster.device_count();
  question.micro_batches = 6;
  return question;
}

PlanQuestion OfAuditedRuns() {
  PlanQuestion question = SmallGptOnTwoDevices();
  question.micro_batches = 4;
  question.audit_every = 10;
  return question;
}

// What WhatIf says of `question` beside its plan where each search ends as soon as it begins.
void ExpectMoreIsNoSlower(PlanQuestion question) {
  const absl::StatusOr<PlanSource> source = MakeSource(question);
  ASSERT_TRUE(source.ok()) << source.status();
  const absl::StatusOr<JointPlan> best =
      FindPlan(question, *source, *MakeJointRequest(question, *source), {});
  ASSERT_TRUE(best.ok()) << best.status();
  const double seconds = best->plan.objective_seconds();
  question.stop = [] { return true; };
  std::vector<std::string> whats;
  for (const PlanVariant& variant : WhatIf(question, *source, *best, {})) {
    if (variant.what == "1 more device" || variant.what == "1 fewer device") continue;
    whats.push_back(variant.what);
    EXPECT_EQ(variant.why, "") << variant.what;
    EXPECT_THAT(variant.description, StartsWith(best->plan.description + "; pipeline "));
    EXPECT_EQ(variant.bytes, best->plan.largest_peak_bytes()) << variant.what;
    if (variant.what == "twice the bandwidth") {
      EXPECT_LE(variant.seconds, seconds);
      EXPECT_LT(variant.step_seconds, best->plan.step_seconds);
    } else {
      EXPECT_EQ(variant.seconds, seconds) << variant.what;
      EXPECT_EQ(variant.step_seconds, best->plan.step_seconds) << variant.what;
    }
  }
  EXPECT_THAT(whats, ElementsAre("10 GiB more memory per device", "unlimited memory",
                                 "twice the bandwidth"));
}

// What is found at once is three times as slow as the plan, with as much memory as one likes, too.
TEST(WhatIf, MoreIsNeverSlowerWhenTheSearchEndsEarly) {
  PlanQuestion question = OfTwoKinds();
  ExpectMoreIsNoSlower(question);
  question.objective = PlanObjective::kBottleneck;
  ExpectMoreIsNoSlower(question);
}

// Of one way to use the devices nothing is found at once.
TEST(WhatIf, MoreHasAPlanWhenTheSearchFindsNone) { ExpectMoreIsNoSlower(OfAuditedRuns()); }

// Five devices that share a stage's four heads: there is no price of that.
TEST(WhatIf, MoreHasThePlanOfTheSearchWhenTheKnownOneHasNoPrice) {
  const PlanQuestion question = SmallGptOnTwoDevices();
  const absl::StatusOr<PlanSource> source = MakeSource(question);
  ASSERT_TRUE(source.ok()) << source.status();
  const absl::StatusOr<JointRequest> request = MakeJointRequest(question, *source);
  ASSERT_TRUE(request.ok()) << request.status();
  absl::StatusOr<JointPlan> best = FindPlan(question, *source, *request, {});
  ASSERT_TRUE(best.ok()) << best.status();
  best->setting.tensor = 5;
  ASSERT_FALSE(request->price(best->setting).ok());
  int loosened = 0;
  for (const PlanVariant& variant : WhatIf(question, *source, *best, {})) {
    if (variant.what == "5 more devices") continue;
    ++loosened;
    EXPECT_EQ(variant.why, "") << variant.what;
    EXPECT_LE(variant.seconds, best->plan.objective_seconds()) << variant.what;
  }
  EXPECT_EQ(loosened, 3);
}

}  // namespace
}  // namespace sluice
