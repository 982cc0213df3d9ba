#include "partitioner/orders/custom_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "partitioner/bounds/step_floor.h"
#include "partitioner/candidate.h"
#include "partitioner/orders/full_rank_cut.h"
#include "partitioner/orders/recompute_choice.h"
#include "partitioner/partition_problem.h"
#include "partitioner/planning/file/plan_file.h"
#include "partitioner/planning/plan/candidates.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_builder.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/planner.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_answer.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/partition.h"
#include "tests/partitioner/brute_force.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

// Fifty blocks alike, an embedding and a head, over 16 devices: some need one layer more.
std::vector<LayerCost> SomeModel() {
  LayerCost block;
  block.forward_seconds = 1;
  block.input_grad_seconds = 1.1;
  block.weight_grad_seconds = 0.9;
  block.parameter_bytes = 10;
  block.saved_bytes = {10, 6, 1};
  block.weight_grad_bytes = 10;
  block.workspace_bytes = 3;
  std::vector<LayerCost> layers(52, block);
  layers.front().forward_seconds = 0.01;
  layers.front().input_grad_seconds = layers.front().weight_grad_seconds = 0;
  layers.back().forward_seconds = layers.back().input_grad_seconds = 1.5;
  for (size_t i = 0; i < layers.size(); ++i) layers[i].name = "layer " + std::to_string(i);
  return layers;
}

PlanRequest RequestFor(const CostTable& costs, int64_t memory) {
  PlanRequest request;
  request.machines.costs = std::make_shared<const CostTable>(costs);
  request.devices = 16;
  request.micro_batches = 600;
  request.machines.memory_limit = memory;
  return request;
}

// What a cut gives each rank, checked to be all layers in order.
std::vector<double> WorkOfRanks(const PlacedCut& cut, const std::vector<double>& work) {
  EXPECT_EQ(cut.partition.size(), static_cast<size_t>(cut.placement.stages()));
  std::vector<double> of_rank(cut.placement.ranks());
  int next = 0;
  for (size_t stage = 0; stage < cut.partition.size(); ++stage) {
    EXPECT_EQ(cut.partition[stage].first, next);
    EXPECT_GE(cut.partition[stage].size(), 1);
    next = cut.partition[stage].last + 1;
    for (int layer = cut.partition[stage].first; layer < next; ++layer) {
      of_rank[cut.placement.rank(static_cast<int>(stage))] += work[layer];
    }
  }
  EXPECT_EQ(next, static_cast<int>(work.size()));
  return of_rank;
}

TEST(FullRanksFirst, CutsAVOfRanksThatNeverWorkTooLong) {
  Random random(1);
  int cut = 0;
  for (int trial = 0; trial < 2'000; ++trial) {
    const int ranks = 1 + Below(random, 8), layers = 2 * ranks + Below(random, 30);
    std::vector<double> work(layers);
    for (double& seconds : work) seconds = 1 + Below(random, 4);
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    const double most = all / ranks * (1 + 0.1 * Below(random, 10));
    const double share = 0.1 + 0.1 * Below(random, 9);
    const Partition partition = FullRanksFirst(work, ranks, most, share);
    if (partition.empty()) continue;
    ++cut;
    ASSERT_EQ(partition.size(), static_cast<size_t>(2 * ranks));
    for (double seconds : WorkOfRanks({Placement::V(ranks), partition}, work)) {
      EXPECT_LE(seconds, most);
    }
  }
  EXPECT_GT(cut, 500);
}

TEST(FullRanksLast, PutsTheRanksWithALayerMoreBeforeTheLastStage) {
  Random random(3);
  int cut_out = 0;
  for (int trial = 0; trial < 2'000; ++trial) {
    const int ranks = 1 + Below(random, 8), layers = 2 * ranks + Below(random, 30);
    std::vector<double> work(layers);
    for (double& seconds : work) seconds = trial % 2 == 0 ? 1 : 1 + Below(random, 2);
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    const double most = all / ranks * (1 + 0.1 * Below(random, 10));
    const PlacedCut cut = FullRanksLast(work, ranks, most, 0.1 + 0.1 * Below(random, 9));
    if (cut.partition.empty()) continue;
    ++cut_out;
    ASSERT_EQ(cut.placement.ranks(), ranks);
    for (double seconds : WorkOfRanks(cut, work)) EXPECT_LE(seconds, most);
    EXPECT_EQ(cut.placement.rank(0), 0);
    EXPECT_EQ(cut.placement.rank(cut.placement.stages() - 1), 0);
    // One stage each of a layer more than the two stages of a rank of the V have together.
    const int full = cut.placement.stages() - 2;
    EXPECT_EQ(cut.placement.rank(full), ranks - 1);
    EXPECT_EQ(cut.placement.StagesOf(ranks - 1), std::vector<int>{full});
    const std::vector<int> of_v = cut.placement.StagesOf(1);
    if (of_v.size() == 2) {
      EXPECT_EQ(cut.partition[full].size(),
                cut.partition[of_v[0]].size() + cut.partition[of_v[1]].size() + 1);
    }
  }
  EXPECT_GT(cut_out, 300);
}

TEST(RecomputeToFit, RecomputesMoreInLessMemoryButNoRankWorksLongerThanTheFullest) {
  std::vector<LayerCost> layers = SomeModel();
  for (LayerCost& layer : layers) layer.restore_seconds = 0.1;
  const CostTable costs = *CostTable::Create(layers);
  double before = 0;
  for (const int64_t memory : {2'000, 300, 220, 160}) {
    PlanRequest request = RequestFor(costs, memory);
    request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    for (FullRanks full : {FullRanks::kFirst, FullRanks::kLast}) {
      const PlacedCut cut = LeastCut(request, full, 0.3);
      ASSERT_FALSE(cut.partition.empty());
      const std::vector<Recompute> chosen = RecomputeToFit(request, cut, 1.5, /*longer=*/false);
      ASSERT_EQ(chosen.size(), cut.partition.size());
      double fullest = 0, longest = 0, again = 0;
      for (int rank = 0; rank < request.devices; ++rank) {
        double least = 0, work = 0;
        for (int stage : cut.placement.StagesOf(rank)) {
          const RangeCost none = costs.Price(cut.partition[stage], Recompute::kNone);
          const RangeCost cost = costs.Price(cut.partition[stage], chosen[stage]);
          least += none.forward + none.backward();
          work += cost.forward + cost.backward();
        }
        fullest = std::max(fullest, least);
        longest = std::max(longest, work);
        again += work - least;
      }
      EXPECT_NEAR(longest, fullest, 1e-9 * fullest);
      if (memory == 2'000) {
        EXPECT_EQ(again, 0);
      }
      if (full == FullRanks::kFirst) {
        EXPECT_GE(again, before) << memory;
        before = again;
      }
    }
  }
  EXPECT_GT(before, 0);
}

// Full ranks may recompute as well; nobody works longer than it takes for all to fit.
TEST(RecomputeToFit, LetsRanksWorkLongerWhereTheyLackMemory) {
  std::vector<LayerCost> layers = SomeModel();
  for (LayerCost& layer : layers) layer.restore_seconds = 0.1;
  const CostTable costs = *CostTable::Create(layers);
  int alike = 0, longer = 0;
  for (const int64_t memory : {2'000, 300, 260, 220, 180, 160}) {
    PlanRequest request = RequestFor(costs, memory);
    request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    for (FullRanks full : {FullRanks::kFirst, FullRanks::kLast}) {
      const PlacedCut cut = LeastCut(request, full, 0.5);
      // The longest rank's seconds, and the bytes that a micro-batch keeps on all ranks.
      const auto measure = [&](const std::vector<Recompute>& chosen) {
        std::vector<double> work(cut.placement.ranks());
        int64_t bytes = 0;
        for (int stage = 0; stage < cut.placement.stages(); ++stage) {
          const RangeCost cost = costs.Price(cut.partition[stage], chosen[stage]);
          work[cut.placement.rank(stage)] += cost.forward + cost.backward();
          bytes += cost.activation_bytes;
        }
        return std::pair(*std::max_element(work.begin(), work.end()), bytes);
      };
      const auto within = measure(RecomputeToFit(request, cut, 1.5, /*longer=*/false));
      const auto beyond = measure(RecomputeToFit(request, cut, 1.5, /*longer=*/true));
      EXPECT_GE(beyond.first, within.first * (1 - 1e-9)) << memory;
      alike += beyond == within ? 1 : 0;
      if (beyond.first <= within.first * (1 + 1e-9)) continue;
      ++longer;
      EXPECT_LT(beyond.second, within.second) << memory;
    }
    if (memory == 2'000) {
      EXPECT_EQ(alike, 2) << "there is room";
    }
  }
  EXPECT_GT(longer, 0);
}

// Selective recomputation takes next to no time here, so what is in flight does not depend on it.
TEST(RecomputeToFit, IsTheLeastWorkOfAllChoicesThatFit) {
  constexpr double kSlowness = 1.3;
  std::vector<LayerCost> layers = SomeModel();
  for (LayerCost& layer : layers) layer.restore_seconds = 1e-9;
  const CostTable costs = *CostTable::Create(layers);
  int recomputing = 0, lacking = 0;
  for (const int64_t memory : {800, 400, 300, 200, 150}) {
    PlanRequest request = RequestFor(costs, memory);
    request.policies = {Recompute::kNone, Recompute::kSelective};
    const PlacedCut cut = LeastCut(request, FullRanks::kLast, 0.3);
    const std::vector<Recompute> chosen = RecomputeToFit(request, cut, kSlowness, /*longer=*/false);
    const auto price = [&](int stage, Recompute policy) {
      return costs.Price(cut.partition[stage], policy);
    };
    double cycle = 0, trip = 0;
    for (int rank = 0; rank < request.devices; ++rank) {
      double work = 0;
      for (int stage : cut.placement.StagesOf(rank)) {
        work += price(stage, Recompute::kNone).forward + price(stage, Recompute::kNone).backward();
      }
      cycle = std::max(cycle, work);
    }
    std::vector<double> in_flight(cut.partition.size());
    for (int stage = cut.placement.stages() - 1; stage >= 0; --stage) {
      trip += price(stage, chosen[stage]).forward + price(stage, chosen[stage]).input_grad;
      in_flight[stage] = kSlowness * trip / cycle + 1;
    }
    for (int rank = 0; rank < request.devices; ++rank) {
      const std::vector<int> stages = cut.placement.StagesOf(rank);
      const auto lacks = [&](const std::vector<Recompute>& policies) {
        std::vector<RangeCost> of_rank;
        double held = 0;
        for (size_t i = 0; i < stages.size(); ++i) {
          of_rank.push_back(price(stages[i], policies[i]));
          held += in_flight[stages[i]] * static_cast<double>(of_rank.back().activation_bytes);
        }
        return held - RoomInFlight(memory, of_rank);
      };
      std::vector<Recompute> mine, most(stages.size(), Recompute::kSelective);
      for (int stage : stages) mine.push_back(chosen[stage]);
      if (std::abs(lacks(mine)) < 1) continue;  // within what the trips' rounding changes
      const bool no_time = stages.size() == 1;
      recomputing += mine == most && !no_time ? 1 : 0;
      if (lacks(mine) > 0) {
        ++lacking;
        EXPECT_TRUE(no_time || mine == most) << memory << " bytes, rank " << rank;
        continue;
      }
      for (size_t i = 0; i < stages.size(); ++i) {
        if (mine[i] == Recompute::kNone) continue;
        std::vector<Recompute> less = mine;
        less[i] = Recompute::kNone;
        EXPECT_GT(lacks(less), -1) << memory << " bytes, rank " << rank;
      }
    }
  }
  EXPECT_GT(recomputing, 0);
  EXPECT_GT(lacking, 0);
}

TEST(RecomputeInSpareTime, MakesNoRankWorkLongerThanTheFullest) {
  Random random(2);
  int recomputing = 0, not_recomputing = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int ranks = 1 + Below(random, 5);
    const CostTable costs = *CostTable::Create(RandomLayers(random, 2 * ranks + Below(random, 9)));
    Partition partition;
    const int each = costs.layer_count() / (2 * ranks);
    for (int stage = 0; stage < 2 * ranks; ++stage) {
      const int last = stage + 1 == 2 * ranks ? costs.layer_count() : (stage + 1) * each;
      partition.push_back({stage * each, last - 1});
    }
    const std::vector<Recompute> recompute =
        RecomputeInSpareTime(costs, partition, Recompute::kNone, Recompute::kFull);
    const auto work = [&](int rank, bool recomputes) {
      double seconds = 0;
      for (const int stage : {rank, 2 * ranks - 1 - rank}) {
        const RangeCost cost = costs.Price(partition[stage].first, partition[stage].last + 1,
                                           recomputes ? recompute[stage] : Recompute::kNone);
        seconds += cost.forward + cost.input_grad + cost.weight_grad;
      }
      return seconds;
    };
    double fullest = 0;
    for (int rank = 0; rank < ranks; ++rank) fullest = std::max(fullest, work(rank, false));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_LE(work(rank, true), fullest);
      EXPECT_EQ(recompute[2 * ranks - 1 - rank], Recompute::kNone);
      ++(recompute[rank] == Recompute::kFull ? recomputing : not_recomputing);
    }
  }
  EXPECT_GT(recomputing, 100);
  EXPECT_GT(not_recomputing, 100);
}

TEST(CustomOrder, IsSoundFitsAndTakesWhatItSays) {
  const CostTable costs = *CostTable::Create(SomeModel());
  int found = 0;
  int last = 0;  // with the full ranks last
  for (const int64_t memory : {200, 250, 300, 500, 800, 1'500}) {
    PlanRequest request = RequestFor(costs, memory);
    request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    const std::optional<CustomOrder> order = FindCustomOrder(request);
    if (!order) continue;
    ++found;
    last += order->candidate.timetable.placement.stages() < 2 * request.devices ? 1 : 0;
    const PartitionProblem problem = ProblemOf(request, order->candidate);
    EXPECT_TRUE(ValidateTimetable(order->candidate.timetable).ok());
    EXPECT_TRUE(Fits(problem, order->assignment)) << memory;
    EXPECT_NEAR(order->seconds, SimulatedSeconds(problem, order->assignment), 1e-7);
    EXPECT_GE(order->seconds, StepFloor(request) * (1 - kProofTolerance));
  }
  EXPECT_GE(found, 3);
  EXPECT_GE(last, 1);
}

TEST(CustomOrder, IsLeftOutWhereTheCatalogueWillDo) {
  const CostTable costs = *CostTable::Create(SomeModel());
  const PlanRequest request = RequestFor(costs, 1'500);
  ASSERT_TRUE(FindCustomOrder(request).has_value());
  EXPECT_FALSE(FindCustomOrder(request, {.cutoff = StepFloor(request)}).has_value());
  PlanRequest few = request;
  few.micro_batches = 20;
  EXPECT_FALSE(FindCustomOrder(few).has_value());
  EXPECT_TRUE(FindCustomOrder(few, {.few_actions = true}).has_value());
  EXPECT_FALSE(FindCustomOrder(request, {.few_actions = true}).has_value());
  PlanRequest tight = request;
  tight.machines.memory_limit = 60;
  EXPECT_FALSE(FindCustomOrder(tight).has_value());
}

TEST(CustomOrder, IsLeftOutWhereSomethingOfTheCatalogueIsAskedFor) {
  const CostTable costs = *CostTable::Create(SomeModel());
  const PlanRequest request = RequestFor(costs, 1'500);
  ASSERT_TRUE(AllowsCustomOrder(request));
  const auto with = [&](const auto& change) {
    PlanRequest other = request;
    change(other);
    return AllowsCustomOrder(other);
  };
  EXPECT_FALSE(with([](PlanRequest& other) { other.schedule = "1f1b"; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.chunks = 2; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.partition = Partition{{0, 1}}; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.for_megatron = true; }));
  EXPECT_FALSE(with([](PlanRequest& other) { other.objective = PlanObjective::kBottleneck; }));
}

void ExpectReadAsWritten(const Plan& plan, const CostTable& costs) {
  PlanContext context;
  context.model = "profile";
  for (const LayerCost& layer : costs.layers()) context.layer_names.push_back(layer.name);
  const absl::StatusOr<PlanFile> file = ParsePlan(FormatPlan(plan, context), "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<Timetable> order = ParseTimetableCsv(file->timetable, "plan.json");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->rows, plan.timetable.rows);
  EXPECT_EQ(order->placement.rank_of_stage(), plan.timetable.placement.rank_of_stage());
}

// What is near enough to the floor of all orders needs no search, and comes back out of its file.
TEST(CustomOrder, EndsAPlanThatMayHaveAGapAndIsWrittenWithItsOrder) {
  const CostTable costs = *CostTable::Create(SomeModel());
  PlanRequest request = RequestFor(costs, 1'500);
  request.gap = 0.05;
  const absl::StatusOr<Plan> plan = MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schedule, kCustomOrder);
  EXPECT_LE(plan->gap(), request.gap);
  EXPECT_EQ(plan->lower_bound, StepFloor(request));
  EXPECT_TRUE(plan->rejected.empty());
  ExpectReadAsWritten(*plan, costs);
}

// The best assignment for the timetable of a small case, and its seconds.
StageAssignment BestAssignment(const PartitionProblem& problem, double* seconds) {
  StageAssignment best;
  double least = kNothing;
  *seconds = BruteForce(problem, [&](const StageAssignment& each) {
    const double here = SimulatedSeconds(problem, each);
    if (here < least) best = each;
    least = std::min(least, here);
    return here;
  });
  return best;
}

Workload WorkloadOf(const PartitionProblem& problem) {
  Workload workload;
  workload.machines = problem.machines;
  workload.devices = problem.timetable->placement.ranks();
  workload.micro_batches = problem.timetable->micro_batches;
  workload.policies = problem.policies;
  return workload;
}

TEST(FindBetterOrder, IsSoundFitsAndIsFaster) {
  constexpr uint64_t kTrials = Trials(60, /*sanitized=*/15);
  int faster = 0, faster_in_little_memory = 0, moved = 0;
  for (uint64_t seed = 0; seed < kTrials; ++seed) {
    const RandomCase random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << random.Describe());
    double seconds = 0;
    const StageAssignment assignment = BestAssignment(random.problem, &seconds);
    if (seconds == kNothing) continue;
    const Workload workload = WorkloadOf(random.problem);
    const Candidate candidate{"given", random.timetable.placement.chunks(), random.timetable,
                              std::make_shared<const InFlight>(random.timetable)};
    const std::optional<CustomOrder> order =
        FindBetterOrder(workload, candidate, assignment, {.cutoff = seconds});
    if (!order) continue;
    ++faster;
    faster_in_little_memory += workload.machines.limits_memory() ? 1 : 0;
    EXPECT_LT(order->seconds, seconds);
    moved += order->assignment.partition != assignment.partition ? 1 : 0;
    const Timetable& made = order->candidate.timetable;
    EXPECT_EQ(made.placement.rank_of_stage(), random.timetable.placement.rank_of_stage());
    EXPECT_EQ(made.micro_batches, random.timetable.micro_batches);
    EXPECT_TRUE(ValidateTimetable(made).ok());
    const PartitionProblem problem = ProblemOf(workload, order->candidate);
    EXPECT_TRUE(Fits(problem, order->assignment));
    EXPECT_NEAR(order->seconds, SimulatedSeconds(problem, order->assignment), 1e-7);
    EXPECT_GE(order->seconds, StepFloor(workload) * (1 - kProofTolerance));
  }
  RecordProperty("faster", faster);
  RecordProperty("moved", moved);
  RecordProperty("faster_in_little_memory", faster_in_little_memory);
  EXPECT_GT(faster, static_cast<int>(kTrials) / 10);
  EXPECT_GT(faster_in_little_memory, static_cast<int>(kTrials) / 20);
}

TEST(FindBetterOrder, LeavesOutWhatItCannotOrder) {
  const CostTable costs = *CostTable::Create(SomeModel());
  Workload workload = RequestFor(costs, 1'500);
  const auto order_of = [&](const char* schedule, int chunks, int micro_batches) {
    workload.micro_batches = micro_batches;
    const Timetable timetable = *GenerateSchedule(
        schedule, {.ranks = workload.devices, .micro_batches = micro_batches, .chunks = chunks});
    const Candidate candidate{schedule, chunks, timetable,
                              std::make_shared<const InFlight>(timetable)};
    const int stages = timetable.placement.model_stages();
    StageAssignment assignment{*EvenPartition(costs.layer_count(), stages), {}};
    assignment.recompute.resize(static_cast<size_t>(stages));
    return FindBetterOrder(workload, candidate, assignment, {});
  };
  EXPECT_TRUE(order_of("1f1b", 1, 20).has_value());
  EXPECT_FALSE(order_of("chimera", 2, 20).has_value());        // two copies
  EXPECT_FALSE(order_of("pipedream-2bw", 1, 20).has_value());  // updates within the step
  EXPECT_FALSE(order_of("1f1b", 1, 1'000).has_value());        // 48,000 actions
}

// Sixteen devices and twenty micro-batches: no order of the catalogue suits 52 layers.
TEST(FindBetterOrder, IsThePlanWhereTheCatalogueLeavesAGap) {
  const CostTable costs = *CostTable::Create(SomeModel());
  PlanRequest request = RequestFor(costs, 800);
  request.micro_batches = 20;
  const absl::StatusOr<Plan> plan = MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->schedule, kCustomOrder);
  EXPECT_EQ(plan->lower_bound, StepFloor(request));
  ExpectReadAsWritten(*plan, costs);
  for (const char* schedule : {"1f1b", "zb-h1", "zbv", "interleaved-zb"}) {
    request.schedule = schedule;
    const absl::StatusOr<Plan> other = MakePlan(request);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_LT(plan->step_seconds, other->step_seconds * 0.995) << schedule;
  }
}

// Where the full ranks have one stage each and the others two.
TEST(CustomOrder, IsWrittenWhereSomeRanksHaveFewerStages) {
  const CostTable costs = *CostTable::Create(SomeModel());
  int last = 0;
  for (const int64_t memory : {200, 250, 300}) {
    PlanRequest request = RequestFor(costs, memory);
    request.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
    const std::optional<CustomOrder> order = FindCustomOrder(request);
    if (!order || order->candidate.timetable.placement.stages() % request.devices == 0) continue;
    ++last;
    const absl::StatusOr<Plan> plan = BuildPlan(request, order->candidate, order->assignment);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectReadAsWritten(*plan, costs);
  }
  EXPECT_GE(last, 1);
}

}  // namespace
}  // namespace sluice
