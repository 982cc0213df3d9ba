#include "partitioner/planning/race/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partitioner/bounds/step_floor.h"
#include "partitioner/orders/custom_order.h"
#include "partitioner/planning/plan/least_memory_plan.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/search/exact_partition.h"
#include "tests/partitioner/random_chain.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-7;

PlanRequest SomeRequest(const CostTable& costs, int devices, int micro_batches) {
  PlanRequest request;
  request.machines.costs = std::make_shared<const CostTable>(costs);
  request.devices = devices;
  request.micro_batches = micro_batches;
  return request;
}

std::string ErrorOf(const absl::StatusOr<Plan>& plan) {
  EXPECT_FALSE(plan.ok());
  return std::string(plan.status().message());
}

TEST(MakePlan, SchedulesThatRunWApartPayWhatThatCosts) {
  Random random(12);
  std::vector<LayerCost> layers = RandomLayers(random, 8);
  const CostTable together = *CostTable::Create(layers);
  std::vector<LayerCost> dear = layers;
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].apart_input_grad_seconds = dear[i].input_grad_seconds *= 1.25;
    layers[i].apart_weight_grad_seconds = dear[i].weight_grad_seconds *= 1.5;
  }
  const CostTable costs = *CostTable::Create(layers);
  const CostTable apart = *CostTable::Create(dear);
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    PlanRequest request = SomeRequest(costs, 3, 6);
    PlanRequest want = SomeRequest(std::string(schedule) == "1f1b" ? together : apart, 3, 6);
    request.schedule = want.schedule = schedule;
    EXPECT_EQ(MakePlan(request)->step_seconds, MakePlan(want)->step_seconds) << schedule;
  }
  // If a measurement finds them cheaper, that is noise.
  for (LayerCost& layer : layers) {
    layer.apart_input_grad_seconds = layer.input_grad_seconds / 2;
    layer.apart_weight_grad_seconds = 0;
  }
  const CostTable noise = *CostTable::Create(layers);
  EXPECT_EQ(&noise.apart(), &noise);
}

TEST(MakePlan, AutoIsTheBestOfTheNamedSchedules) {
  Random random(11);
  for (int trial = 0; trial < 150; ++trial) {
    const int layers = 3 + Below(random, 8);
    const CostTable costs = *CostTable::Create(RandomLayers(random, layers));
    PlanRequest request =
        SomeRequest(costs, 1 + Below(random, std::min(4, layers)), 1 + Below(random, 8));
    request.machines.link = RandomLink(random);
    if (trial % 2 == 0) request.machines.memory_limit = 500 + Below(random, 2000);
    request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    const absl::StatusOr<Plan> best = MakePlan(request);
    double least = std::numeric_limits<double>::infinity();
    for (const CatalogueEntry& entry : Catalogue()) {
      request.schedule = entry.name;
      for (int chunks = 1; chunks <= 8 && chunks * request.devices <= layers; ++chunks) {
        request.chunks = chunks;
        const absl::StatusOr<Plan> plan = MakePlan(request);
        if (plan.ok()) least = std::min(least, plan->step_seconds);
      }
    }
    ASSERT_EQ(best.ok(), least != std::numeric_limits<double>::infinity()) << best.status();
    if (!best.ok()) {
      EXPECT_EQ(best.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    EXPECT_NEAR(best->step_seconds, least, kTolerance);
    EXPECT_TRUE(best->optimal);
    EXPECT_NEAR(best->lower_bound, least, kTolerance);
    EXPECT_NEAR(best->step_seconds, SimulatedSeconds(best->timetable, best->stage_costs),
                kTolerance);
    for (int64_t bytes : best->peak_bytes) {
      EXPECT_LE(bytes, request.machines.memory_limit.value_or(bytes));
    }
  }
}

// Where it takes long to swap the gradients of what both ends have in common, both are on one rank.
TEST(MakePlan, AutoKeepsBothEndsOnOneRankWhereTheirGradientsAreDearToSwap) {
  Random random(19);
  std::vector<LayerCost> layers = RandomLayers(random, 8);
  layers.back().tied_gradient_bytes = 0;
  const auto plan = [&](const std::optional<std::string>& schedule) {
    PlanRequest request = SomeRequest(*CostTable::Create(layers), 2, 6);
    request.machines.link.bandwidth = 1e6;
    request.schedule = schedule;
    return *MakePlan(request);
  };
  const Plan before = plan("1f1b");
  layers.back().tied_gradient_bytes = 400'000'000;
  const Plan after = plan("1f1b");
  EXPECT_EQ(before.tied_exchange_seconds(), 0);
  EXPECT_GE(after.tied_exchange_seconds(), 400);
  EXPECT_NEAR(after.step_seconds, before.step_seconds + 400, 20);
  EXPECT_TRUE(after.optimal);
  EXPECT_EQ(after.peak_bytes, before.peak_bytes);
  const Plan best = plan(std::nullopt);
  EXPECT_EQ(best.stages.front().rank, best.stages.back().rank);
  EXPECT_EQ(best.tied_exchange_seconds(), 0);
}

// Wherever the time limit ends the search, each timetable is listed as rejected once.
TEST(MakePlan, RejectsEachTimetableOnceWhenItIsStopped) {
  Random random(17);
  const CostTable costs = *CostTable::Create(RandomLayers(random, 8));
  PlanRequest request = SomeRequest(costs, 4, 8);
  int stopped = 0;
  for (int asked = 1; asked < 60; ++asked) {
    std::atomic<int> left = asked;
    request.stop = [&left] { return --left < 0; };
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (!plan.ok()) continue;
    std::set<std::string> rejected;
    for (const RejectedPlan& each : plan->rejected) {
      EXPECT_TRUE(rejected.insert(each.what).second) << each.what << ": " << each.why;
      stopped += each.why == "not tried in the time" ? 1 : 0;
    }
  }
  EXPECT_GT(stopped, 0);
}

// A plan with an order of its own is kept where the time is over before the catalogue is tried.
TEST(MakePlan, KeepsWhatItHasFoundWhenItIsStopped) {
  Random random(23);
  const CostTable costs = *CostTable::Create(RandomLayers(random, 11));
  PlanRequest request = SomeRequest(costs, 4, 300);
  std::atomic<int> asked = 0;
  const auto found = FindCustomOrder(request, {.enough = StepFloor(request), .stop = [&asked] {
                                                 ++asked;
                                                 return false;
                                               }});
  ASSERT_TRUE(found.has_value());
  std::atomic<int> left = asked.load();
  request.stop = [&left] { return --left < 0; };
  const absl::StatusOr<Plan> plan = MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schedule, kCustomOrder);
  EXPECT_EQ(plan->lower_bound, StepFloor(request));
  EXPECT_NEAR(plan->step_seconds, found->seconds, found->seconds * kProofTolerance);
}

TEST(MakePlan, SaysHowMuchMemoryWouldDoAndItDoes) {
  Random random(12);
  int refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int layers = 4 + Below(random, 6);
    const CostTable costs = *CostTable::Create(RandomLayers(random, layers));
    PlanRequest request = SomeRequest(costs, 2 + Below(random, 2), 4);
    request.schedule = "1f1b";
    request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    request.machines.memory_limit = 50 + Below(random, 400);
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (plan.ok()) continue;
    ++refused;
    const std::string message = ErrorOf(plan);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(message, HasSubstr("stage "));
    const size_t at = message.find('(', message.find("even the leanest needs"));
    const int64_t enough = std::stoll(message.substr(at + 1));
    request.machines.memory_limit = enough;
    EXPECT_TRUE(MakePlan(request).ok()) << message;
    request.machines.memory_limit = enough - 1;
    EXPECT_FALSE(MakePlan(request).ok()) << message;
  }
  EXPECT_GT(refused, 30);
}

// Runs take more than layers declare, and not of every timetable equally more.
TEST(MakeLeastMemoryPlan, ComparesWhatRunsTake) {
  const auto run = [](Plan* plan) {
    int64_t more = 0;
    for (const PlanStage& stage : plan->stages) more = (7 * more + stage.in_flight) % 29;
    for (int64_t& bytes : plan->peak_bytes) bytes += 10 * more;
    return absl::OkStatus();
  };
  Random random(13);
  int others = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const int layers = 4 + Below(random, 6);
    const CostTable costs = *CostTable::Create(RandomLayers(random, layers));
    PlanRequest request = SomeRequest(costs, 2, 1 + Below(random, 6));
    request.policies = {Recompute::kNone, Recompute::kFull};
    const Plan declared = MakeLeastMemoryPlan(request)->plan;
    const Plan leanest = MakeLeastMemoryPlan(request, run)->plan;
    others += declared.description != leanest.description;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const CatalogueEntry& entry : Catalogue()) {
      if (entry.updates != WeightUpdates::kFlush || entry.copies > 1) continue;
      request.schedule = entry.name;
      for (int chunks = 1; chunks * request.devices <= layers; ++chunks) {
        request.chunks = chunks;
        const absl::StatusOr<LeanestPlan> leaner = MakeLeastMemoryPlan(request, run);
        if (leaner.ok()) least = std::min(least, leaner->plan.largest_peak_bytes());
      }
    }
    EXPECT_EQ(leanest.largest_peak_bytes(), least) << leanest.description;
  }
  EXPECT_GT(others, 0) << "in some trials the run of another one takes less";
}

// The clock is looked at before each timetable: the answer is then of those that were, and says so.
TEST(MakeLeastMemoryPlan, EndsWhenToldTo) {
  Random random(17);
  const CostTable costs = *CostTable::Create(RandomLayers(random, 12));
  PlanRequest request = SomeRequest(costs, 2, 4);
  std::atomic<int> asked = 0;
  request.stop = [&asked] {
    ++asked;
    return false;
  };
  const absl::StatusOr<LeanestPlan> all = MakeLeastMemoryPlan(request);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->all_tried);
  EXPECT_FALSE(all->proved) << "several stages of a rank may need less, cut otherwise";
  EXPECT_THAT(std::string(NothingFits(*all, 1).message()), HasSubstr("the leanest found needs "));
  // Asked once for each timetable that is wanted, and once before each but the first is priced.
  const int refused = static_cast<int>(all->plan.rejected.size());
  const int timetables = (asked + 1 - refused) / 2;
  ASSERT_GT(timetables, 5);
  for (const int priced : {1, 2, timetables - 1}) {
    asked = 0;
    const int last = refused + timetables + priced - 1;
    request.stop = [&asked, last] { return ++asked > last; };
    const absl::StatusOr<LeanestPlan> some = MakeLeastMemoryPlan(request);
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_EQ(asked, last + 1) << "no more is done after that";
    EXPECT_FALSE(some->all_tried);
    EXPECT_GE(some->plan.largest_peak_bytes(), all->plan.largest_peak_bytes());
    EXPECT_THAT(std::string(NothingFits(*some, 1).message()),
                HasSubstr("the leanest that was looked at within the time limit needs "));
  }
  request.stop = [] { return true; };
  EXPECT_TRUE(absl::IsDeadlineExceeded(MakeLeastMemoryPlan(request).status()));
}

TEST(MakePlan, PricesAGivenPartition) {
  Random random(13);
  for (int trial = 0; trial < 100; ++trial) {
    const int layers = 4 + Below(random, 8);
    const CostTable costs = *CostTable::Create(RandomLayers(random, layers));
    PlanRequest request = SomeRequest(costs, 4, 6);
    request.schedule = "1f1b";
    const absl::StatusOr<Plan> best = MakePlan(request);
    request.partition = *EvenPartition(layers, 4);
    const absl::StatusOr<Plan> given = MakePlan(request);
    ASSERT_TRUE(given.ok()) << given.status();
    EXPECT_EQ(given->partition(), *request.partition);
    EXPECT_GE(given->step_seconds, best->step_seconds - kTolerance);
    // The best partition, given as input, has the costs that the plan stated.
    request.partition = best->partition();
    EXPECT_NEAR(MakePlan(request)->step_seconds, best->step_seconds, kTolerance);
  }
}

TEST(MakePlan, OfEquallyFastSchedulesTakesTheOneThatKeepsLessInFlight) {
  std::vector<LayerCost> layers = RandomLayers(*std::make_unique<Random>(1), 4);
  for (LayerCost& layer : layers) {
    layer = layers[0];
    layer.forward_seconds = layer.input_grad_seconds = layer.weight_grad_seconds = 1;
  }
  // GPipe and 1F1B take the same time; with one layer per device nothing can be interleaved.
  const CostTable costs = *CostTable::Create(layers);
  PlanRequest request = SomeRequest(costs, 4, 8);
  request.objective = PlanObjective::kBottleneck;
  const absl::StatusOr<Plan> plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->schedule, "1f1b");
  std::vector<int> in_flight;
  for (const PlanStage& stage : plan->stages) in_flight.push_back(stage.in_flight);
  EXPECT_EQ(in_flight, (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(plan->bottleneck_seconds, 3);
  EXPECT_TRUE(std::any_of(plan->rejected.begin(), plan->rejected.end(),
                          [](const RejectedPlan& r) { return r.what == "gpipe"; }));
}

TEST(MakePlan, NamesWhatIsWrong) {
  Random random(14);
  const CostTable costs = *CostTable::Create(RandomLayers(random, 6));
  PlanRequest request = SomeRequest(costs, 7, 4);
  EXPECT_THAT(ErrorOf(MakePlan(request)), HasSubstr("7 stages, more than the 6 layers"));
  request = SomeRequest(costs, 2, 0);
  EXPECT_THAT(ErrorOf(MakePlan(request)), HasSubstr("micro-batches must be at least 1, not 0"));
  request = SomeRequest(costs, 0, 4);
  EXPECT_THAT(ErrorOf(MakePlan(request)), HasSubstr("devices must be at least 1, not 0"));
  request = SomeRequest(costs, 2, 4);
  request.schedule = "1f2b";
  EXPECT_THAT(ErrorOf(MakePlan(request)), HasSubstr("no schedule '1f2b'"));
  EXPECT_EQ(MakePlan(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = SomeRequest(costs, 2, 4);
  request.schedule = "1f1b";
  request.chunks = 2;
  EXPECT_THAT(ErrorOf(MakePlan(request)), HasSubstr("chunk"));
  request = SomeRequest(costs, 2, 4);
  request.partition = *EvenPartition(6, 3);
  EXPECT_THAT(ErrorOf(MakePlan(request)), HasSubstr("cannot be divided evenly among 2 devices"));
}

TEST(LayerCosts, RefuseWhatIsNotANumber) {
  Random random(15);
  std::vector<LayerCost> layers = RandomLayers(random, 3);
  layers[1].forward_seconds = std::nan("");
  const absl::StatusOr<CostTable> nan = CostTable::Create(layers);
  EXPECT_EQ(nan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(nan.status().message()), HasSubstr("'layer 1': forward_seconds"));
  layers[1].forward_seconds = 1;
  layers[2].saved_bytes[1] = -1;
  EXPECT_THAT(std::string(CostTable::Create(layers).status().message()),
              HasSubstr("'layer 2': saved_bytes (selective) is -1"));
  EXPECT_FALSE(CostTable::Create({}).ok());
}

}  // namespace
}  // namespace sluice
