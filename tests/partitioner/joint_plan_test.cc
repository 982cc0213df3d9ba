#include "partitioner/planning/race/joint_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/spec/presets.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/planning/answer/answer.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/planning/race/settings.h"
#include "partitioner/planning/sources/source.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_answer.h"
#include "tests/partitioner/random_chain.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kTolerance = 1e-7;

// Layers whose costs grow with the micro-batch and shrink with the tensor degree, but not
// proportionally; replicas cost a tail.
struct RandomModel {
  explicit RandomModel(uint64_t seed) : random(seed) {
    layers = RandomLayers(random, 2 + Below(random, 5));
    link = RandomLink(random);
    if (random() % 2 == 0) memory = 60 + Below(random, 1500);
  }

  absl::StatusOr<Machines> Price(const PlanSetting& setting) const {
    std::vector<LayerCost> priced = layers;
    for (LayerCost& layer : priced) {
      const double samples = 0.5 + static_cast<double>(setting.micro_batch_size);
      const double share = 1.0 / setting.tensor + 0.1 * (setting.tensor - 1);
      layer.forward_seconds *= samples * share;
      layer.input_grad_seconds *= samples * share;
      layer.weight_grad_seconds *= samples * share;
      layer.sync_seconds += setting.data - 1;
      layer.parameter_bytes /= setting.tensor;
      layer.tied_bytes /= setting.tensor;
      for (int64_t& bytes : layer.saved_bytes) bytes *= setting.micro_batch_size;
    }
    Machines result;
    result.costs = *CostTable::CreateShared(std::move(priced));
    result.link = link;
    result.memory_limit = memory;
    return result;
  }

  Random random;
  std::vector<LayerCost> layers;
  Link link;
  std::optional<int64_t> memory;
};

JointRequest RequestFor(const RandomModel& model, const std::vector<PlanSetting>& settings) {
  JointRequest request;
  request.common.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  request.settings = settings;
  request.price = [&model](const PlanSetting& setting) { return model.Price(setting); };
  return request;
}

SettingChoices FourDevices(const RandomModel& model, int most_tensor) {
  SettingChoices choices;
  choices.devices = 4;
  choices.most_tensor = most_tensor;
  choices.layers = static_cast<int>(model.layers.size());
  choices.global_batch = 8;
  return choices;
}

TEST(JointPlan, IsTheBestOfAllSettingsPlannedApart) {
  int found = 0, nothing = 0, not_tried = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const RandomModel model(seed);
    const std::vector<PlanSetting> settings = *ListSettings(FourDevices(model, 2));
    const JointRequest request = RequestFor(model, settings);
    double least = std::numeric_limits<double>::infinity();
    for (const PlanSetting& setting : settings) {
      const PlanRequest alone = RequestOf(request.common, setting, *model.Price(setting));
      const absl::StatusOr<Plan> plan = MakePlan(alone);
      if (!plan.ok()) continue;
      least = std::min(least, plan->step_seconds);
      EXPECT_LE(StepFloor(alone), plan->step_seconds * (1 + kProofTolerance));
    }
    const absl::StatusOr<JointPlan> joint = MakeJointPlan(request);
    if (least == std::numeric_limits<double>::infinity()) {
      ++nothing;
      EXPECT_EQ(joint.status().code(), absl::StatusCode::kFailedPrecondition) << joint.status();
      continue;
    }
    ASSERT_TRUE(joint.ok()) << joint.status();
    ++found;
    not_tried += joint->settings_in_all - joint->settings_tried;
    EXPECT_NEAR(joint->plan.step_seconds, least, kTolerance);
    EXPECT_TRUE(joint->plan.optimal) << joint->plan.gap();
    EXPECT_NEAR(joint->plan.lower_bound, least, kTolerance);
  }
  EXPECT_GT(found, 60);
  EXPECT_GT(nothing, 3);
  EXPECT_GT(not_tried, 100);  // bounds must save some of the work
}

TEST(JointPlan, AGapThatIsAllowedIsKept) {
  int faster = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomModel model(seed);
    model.memory.reset();
    JointRequest request = RequestFor(model, *ListSettings(FourDevices(model, 1)));
    const double best = MakeJointPlan(request)->plan.step_seconds;
    request.common.gap = 0.1;
    const absl::StatusOr<JointPlan> near = MakeJointPlan(request);
    ASSERT_TRUE(near.ok()) << near.status();
    EXPECT_LE(near->plan.step_seconds, best * 1.1 + kTolerance);
    EXPECT_LE(near->plan.lower_bound, best + kTolerance);
    EXPECT_LE(near->plan.gap(), 0.1 + kTolerance);
    for (const RejectedPlan& rejected : near->plan.rejected) {
      EXPECT_THAT(rejected.why, Not(HasSubstr("slower: at least -"))) << rejected.what;
      faster += rejected.why.find("proved at most") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(faster, 0);
}

// A whole step's seconds bound no bottleneck: settings with more replicas or larger micro-batches
// come earlier where there is memory for few, and prove nothing of the others.
TEST(JointPlan, OfTheBottleneckIsTheBestOfAllSettingsPlannedApart) {
  int found = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RandomModel model(seed);
    JointRequest request = RequestFor(model, *ListSettings(FourDevices(model, 2)));
    request.common.objective = PlanObjective::kBottleneck;
    double least = std::numeric_limits<double>::infinity();
    for (const PlanSetting& setting : request.settings) {
      const absl::StatusOr<Plan> plan =
          MakePlan(RequestOf(request.common, setting, *model.Price(setting)));
      if (plan.ok()) least = std::min(least, plan->bottleneck_seconds);
    }
    const absl::StatusOr<JointPlan> joint = MakeJointPlan(request);
    ASSERT_EQ(joint.ok(), least < std::numeric_limits<double>::infinity()) << joint.status();
    if (!joint.ok()) continue;
    ++found;
    EXPECT_NEAR(joint->plan.bottleneck_seconds, least, kTolerance);
    EXPECT_TRUE(joint->plan.optimal) << joint->plan.gap();
    EXPECT_NEAR(joint->plan.lower_bound, least, kTolerance);
    // Stopped at once, it has what is quick to find, and nothing is proved of the others.
    request.common.stop = [] { return true; };
    const absl::StatusOr<JointPlan> stopped = MakeJointPlan(request);
    if (!stopped.ok()) continue;  // little memory
    EXPECT_GE(stopped->plan.bottleneck_seconds, least - kTolerance);
    EXPECT_LE(stopped->plan.lower_bound, least + kTolerance);
  }
  EXPECT_GT(found, 30);
}

TEST(JointPlan, StopsWhenAskedAndClaimsNoMoreThanItKnows) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomModel model(seed);
    model.memory.reset();
    JointRequest request = RequestFor(model, *ListSettings(FourDevices(model, 1)));
    const double best = MakeJointPlan(request)->plan.step_seconds;
    request.common.stop = [] { return true; };
    const absl::StatusOr<JointPlan> stopped = MakeJointPlan(request);
    ASSERT_TRUE(stopped.ok()) << stopped.status();  // the best plan found before the search
    EXPECT_GE(stopped->plan.step_seconds, best - kTolerance);
    EXPECT_LE(stopped->plan.lower_bound, best + kTolerance);
    request.common.stop = {};
    request.common.budget = 100;
    const absl::StatusOr<JointPlan> short_of = MakeJointPlan(request);
    ASSERT_TRUE(short_of.ok()) << short_of.status();
    EXPECT_GE(short_of->plan.step_seconds, best - kTolerance);
    EXPECT_LE(short_of->plan.lower_bound, best + kTolerance);
  }
}

// The usual time ends a search that has found something, and only such a one.
TEST(JointPlan, GoesOnUntilSomethingIsFoundWhereNobodySetALimit) {
  int needed = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const RandomModel model(seed);
    JointRequest request = RequestFor(model, *ListSettings(FourDevices(model, 2)));
    const absl::StatusOr<JointPlan> whole = MakeJointPlan(request);
    request.stop_when_found = [] { return true; };
    const absl::StatusOr<JointPlan> usual = MakeJointPlan(request);
    ASSERT_EQ(usual.status().code(), whole.status().code()) << usual.status();
    if (!whole.ok()) continue;
    EXPECT_GE(usual->plan.step_seconds, whole->plan.step_seconds - kTolerance);
    EXPECT_LE(usual->plan.lower_bound, whole->plan.step_seconds + kTolerance);
    EXPECT_LE(usual->settings_tried, whole->settings_tried);
    request.common.stop = [] { return true; };
    needed += MakeJointPlan(request).ok() ? 0 : 1;
  }
  EXPECT_GT(needed, 0);  // a limit that somebody set would have ended these without a plan
}

TEST(JointPlan, TakesTheOrderOfDifferentDevicesThatIsBest) {
  // Two layers, one four times the other; two devices, one four times as fast.
  std::vector<LayerCost> slow(2);
  slow[0].name = "small";
  slow[1].name = "large";
  slow[0].forward_seconds = slow[0].input_grad_seconds = slow[0].weight_grad_seconds = 1;
  slow[1].forward_seconds = slow[1].input_grad_seconds = slow[1].weight_grad_seconds = 4;
  std::vector<LayerCost> fast = slow;
  for (LayerCost& layer : fast) {
    layer.forward_seconds /= 4;
    layer.input_grad_seconds /= 4;
    layer.weight_grad_seconds /= 4;
  }
  const std::vector<std::shared_ptr<const CostTable>> kinds = {*CostTable::CreateShared(slow),
                                                               *CostTable::CreateShared(fast)};
  JointRequest request;
  for (const std::vector<int>& order : {std::vector<int>{0, 1}, std::vector<int>{1, 0}}) {
    PlanSetting setting;
    setting.pipeline = 2;
    setting.micro_batches = 8;
    setting.rank_devices = order;
    request.settings.push_back(setting);
  }
  request.price = [&](const PlanSetting& setting) -> absl::StatusOr<Machines> {
    Machines machines;
    machines.costs = kinds[0];
    for (int kind : setting.rank_devices) machines.rank_costs.push_back(kinds[kind]);
    return machines;
  };
  const absl::StatusOr<JointPlan> joint = MakeJointPlan(request);
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_THAT(joint->setting.rank_devices, testing::ElementsAre(0, 1));  // small layer on slow
  EXPECT_LT(joint->plan.step_seconds, 8 * 3 + 4);  // the other way round the large layer takes 96
}

// Nodes of two devices; `fast` and `slow` devices in the order in which they stand in the nodes.
ClusterSpec TwoKinds(int fast, int slow) {
  DeviceSpec device;
  device.name = "fast";
  device.fp32_flops = device.bf16_flops = 1e14;
  device.memory_bandwidth = 1e13;
  ClusterSpec cluster = UniformCluster(device, fast);
  device.name = "slow";
  device.fp32_flops = device.bf16_flops = 6e13;
  cluster.devices.push_back(device);
  cluster.counts.push_back(slow);
  cluster.devices_per_node = 2;
  cluster.inside = {.bandwidth = 1e12};
  cluster.between = {.bandwidth = 1e9};
  return cluster;
}

PlanQuestion QuestionOf(const ClusterSpec& cluster, int data) {
  PlanQuestion question;
  question.model = "char-gpt";
  question.subject = *PresetModel("char-gpt");
  question.cluster = cluster;
  question.devices = cluster.device_count();
  question.data_parallel = data;
  question.micro_batches = 2;
  question.schedule = "1f1b";
  return question;
}

// The devices of each rank, one by one: each takes the first of its kind that are left.
std::vector<std::vector<int>> NaiveDevices(const ClusterSpec& cluster, const PlanSetting& setting) {
  std::vector<bool> taken(static_cast<size_t>(cluster.device_count()), false);
  std::vector<std::vector<int>> ranks;
  for (int kind : setting.rank_devices) {
    std::vector<int>& rank = ranks.emplace_back();
    for (int device = 0; static_cast<int>(rank.size()) < setting.data * setting.tensor; ++device) {
      if (taken[device] || cluster.device(device).name != cluster.devices[kind].name) continue;
      taken[device] = true;
      rank.push_back(device);
    }
  }
  return ranks;
}

// Between each device and its counterpart, by counting those of a node that send out of it.
std::vector<Link> NaiveLinks(const ClusterSpec& cluster, const PlanSetting& setting) {
  const std::vector<std::vector<int>> ranks = NaiveDevices(cluster, setting);
  std::vector<Link> links;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<int>& next = ranks[(rank + 1) % ranks.size()];
    std::map<int, int> senders;
    int most = 0;
    for (size_t i = 0; i < next.size(); ++i) {
      const int node = ranks[rank][i] / cluster.devices_per_node;
      if (next[i] / cluster.devices_per_node != node) most = std::max(most, ++senders[node]);
    }
    links.push_back(most == 0 ? cluster.inside : cluster.between);
    if (most > 1) links.back().bandwidth /= most;
  }
  return links;
}

// A message takes as long as the devices stand apart that the order gives to the two ranks.
TEST(JointPlan, OrdersOfDevicesAreComparedWithTheirOwnLinks) {
  for (const auto& [cluster, data] : {std::pair(TwoKinds(2, 2), 1), std::pair(TwoKinds(3, 1), 1),
                                      std::pair(TwoKinds(4, 2), 2), std::pair(TwoKinds(4, 4), 2)}) {
    SCOPED_TRACE(testing::Message() << cluster.counts[0] << " fast, " << cluster.counts[1]
                                    << " slow, " << data << " replicas");
    const PlanQuestion question = QuestionOf(cluster, data);
    const absl::StatusOr<PlanSource> source = MakeSource(question);
    ASSERT_TRUE(source.ok()) << source.status();
    const absl::StatusOr<std::vector<PlanSetting>> settings = SettingsOf(question, *source);
    ASSERT_TRUE(settings.ok()) << settings.status();
    PlanRequest common;
    common.schedule = question.schedule;
    double least = std::numeric_limits<double>::infinity();
    for (const PlanSetting& setting : *settings) {
      absl::StatusOr<Machines> machines = source->price(setting);
      ASSERT_TRUE(machines.ok()) << machines.status();
      const std::vector<Link> links = NaiveLinks(cluster, setting);
      ASSERT_EQ(machines->rank_links.size(), links.size());
      for (size_t rank = 0; rank < links.size(); ++rank) {
        EXPECT_EQ(machines->rank_links[rank].bandwidth, links[rank].bandwidth)
            << "rank " << rank << " of " << testing::PrintToString(setting.rank_devices);
      }
      machines->rank_links = links;
      const absl::StatusOr<Plan> plan = MakePlan(RequestOf(common, setting, *std::move(machines)));
      ASSERT_TRUE(plan.ok()) << plan.status();
      least = std::min(least, plan->step_seconds);
    }
    const absl::StatusOr<PlanAnswer> answer = AnswerQuestion(question, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->plan.optimal);
    EXPECT_NEAR(answer->plan.step_seconds, least, kTolerance * least);
  }
}

TEST(ListSettings, FindsEveryWayToUseTheDevices) {
  SettingChoices choices;
  choices.devices = 8;
  choices.most_tensor = 4;
  choices.layers = 6;
  choices.global_batch = 12;
  const std::vector<PlanSetting> settings = *ListSettings(choices);
  for (const PlanSetting& setting : settings) {
    EXPECT_EQ(setting.data * setting.tensor * setting.pipeline, 8) << setting.Describe();
    EXPECT_EQ(int64_t{setting.data} * setting.micro_batches * setting.micro_batch_size, 12);
    EXPECT_LE(setting.pipeline, 6);
    EXPECT_LE(setting.tensor, 4);
  }
  // tensor 1: data 2 x pipeline 4 (sizes 1, 2), 4 x 2 (1); 2: 1 x 4 (1, 2, 4), 2 x 2 (1, 2), 4 x 1
  // (1); 4: 1 x 2 (1, 2, 4), 2 x 1 (1, 2). data 8 does not divide 12.
  EXPECT_EQ(settings.size(), 3u + 6u + 5u);
}

TEST(ListSettings, SaysWhatDoesNotDivide) {
  const auto error = [](const SettingChoices& choices) {
    return std::string(ListSettings(choices).status().message());
  };
  SettingChoices choices;
  choices.devices = 8;
  choices.layers = 4;
  choices.global_batch = 6;
  choices.data = 3;
  choices.tensor = 1;
  EXPECT_THAT(error(choices), HasSubstr("data 3 x tensor 1 does not divide"));
  choices.data = 4;
  EXPECT_THAT(error(choices), HasSubstr("6 samples cannot be divided evenly among 4 replicas"));
  choices.data = 2;
  choices.micro_batch_size = 2;
  EXPECT_THAT(error(choices), HasSubstr("no multiple of the micro-batch size 2"));
  choices.data = 1;
  EXPECT_THAT(
      error(choices),
      HasSubstr("8 ranks are more than the 4 layers; every stage needs at least one: use more "
                "replicas (--data-parallel)"));
}

}  // namespace
}  // namespace sluice
