// Plans for as much memory as a run takes, where the layers declare less.
#include "partitioner/planning/answer/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/model_spec.h"
#include "partitioner/candidate.h"
#include "partitioner/costs/device.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/planning/answer/run_memory.h"
#include "partitioner/planning/answer/search.h"
#include "tests/partitioner/random_chain.h"
#include "tests/partitioner/small_gpt.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// V-Min has two stages on each device.
PlanQuestion SomeQuestion() {
  PlanQuestion question = SmallGptOnTwoDevices();
  question.schedule = "v-min";
  question.optimizer = OptimizerKind::kSgd;
  return question;
}

absl::StatusOr<JointPlan> PlanFor(PlanQuestion question, int64_t memory, int64_t budget) {
  question.memory = memory;
  const absl::StatusOr<PlanSource> source = MakeSource(question);
  if (!source.ok()) return source.status();
  absl::StatusOr<JointRequest> request = MakeJointRequest(question, *source);
  if (!request.ok()) return request.status();
  request->common.budget = budget;
  return FindPlan(question, *source, *request, {});
}

constexpr int64_t kBudget = 1'000'000;

// That it asks for some memory, and has a plan for as much; for a byte less it has none, unless
// the search ended early: what it then asks for need not be the least.
void ExpectWhatIsAskedForIsEnough(const PlanQuestion& question, int64_t budget = kBudget) {
  const absl::StatusOr<JointPlan> refused = PlanFor(question, 1, budget);
  const std::string message(refused.status().message());
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status())) << message;
  const size_t at = message.find('(', message.find("leanest "));
  ASSERT_LT(at, message.size()) << message;
  const int64_t enough = std::stoll(message.substr(at + 1));
  const absl::StatusOr<JointPlan> found = PlanFor(question, enough, budget);
  ASSERT_TRUE(found.ok()) << message << "\n" << found.status();
  EXPECT_LE(found->plan.largest_peak_bytes(), enough);
  const absl::StatusOr<JointPlan> roomy = PlanFor(question, enough * 2, budget);
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  EXPECT_LE(found->plan.lower_bound, found->plan.objective_seconds());
  EXPECT_GE(found->plan.objective_seconds(), roomy->plan.lower_bound);
  if (budget < kBudget) return;
  const absl::StatusOr<JointPlan> less = PlanFor(question, enough - 1, budget);
  EXPECT_FALSE(less.ok()) << "a byte less than " << enough << " is enough, too";
  EXPECT_THAT(std::string(less.status().message()), HasSubstr("(" + std::to_string(enough)));
}

// With two stages on each rank, where the search chooses their layers and where it does not.
TEST(FindPlan, HasARunThatFitsOfSeveralStagesOnARank) {
  PlanQuestion question = SomeQuestion();
  ExpectWhatIsAskedForIsEnough(question);
  question.partition = Partition{{0, 1}, {2, 2}, {3, 3}, {4, 5}};
  ExpectWhatIsAskedForIsEnough(question);
}

// A search that ends with its budget has looked at few of the plans that fit.
TEST(FindPlan, HasARunThatFitsWhereTheSearchEndedBefore) {
  PlanQuestion question = SomeQuestion();
  question.schedule = "1f1b";
  question.policies = {Recompute::kNone, Recompute::kFull};
  question.mirror = true;
  ExpectWhatIsAskedForIsEnough(question, /*budget=*/0);
  question.schedule = "v-half";
  question.micro_batches = 4;
  ExpectWhatIsAskedForIsEnough(question, /*budget=*/0);
}

// A small transformer on a few devices that have several stages each.
PlanQuestion RandomQuestion(uint64_t seed) {
  Random random(seed);
  PlanQuestion question = SomeQuestion();
  DecoderConfig gpt = *question.spec()->decoder();
  gpt.layers = 2 + Below(random, 3);
  gpt.dim = int64_t{64} << Below(random, 3);
  gpt.heads = 2;
  gpt.max_seq = random() % 2 == 0 ? 64 : 256;
  gpt.tied_head = random() % 2 == 0;
  question.subject = ModelSpec{"small", gpt};
  const std::vector<std::string> schedules = {"interleaved", "bfs", "hanayo", "v-min",
                                              "v-half",      "zbv", "gpipe"};
  question.schedule = schedules[random() % schedules.size()];
  if (random() % 2 == 0) {
    question.devices *= 2;
    question.data_parallel = 2;
    question.zero = Below(random, 3);
  }
  question.micro_batches = 2 * (1 + Below(random, 3));
  question.micro_batch_size = random() % 2 == 0 ? 1 : 4;
  question.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  return question;
}

// So a setting whose layers alone declare more than the run of another one takes cannot be leaner.
TEST(FindPlan, TakesNoLessThanItsLayersDeclare) {
  double largest = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    PlanQuestion question = RandomQuestion(seed);
    question.memory = INT64_MAX / 2;
    const PlanSource source = *MakeSource(question);
    JointRequest request = *MakeJointRequest(question, source);
    request.common.budget = 0;
    const absl::StatusOr<JointPlan> declared = MakeJointPlan(request);
    const absl::StatusOr<JointPlan> run = FindPlan(question, source, request, {});
    ASSERT_TRUE(declared.ok() && run.ok()) << declared.status() << run.status();
    ASSERT_EQ(run->plan.partition(), declared->plan.partition());
    for (size_t rank = 0; rank < run->plan.peak_bytes.size(); ++rank) {
      const int64_t bytes = declared->plan.peak_bytes[rank];
      EXPECT_GE(run->plan.peak_bytes[rank], bytes) << "rank " << rank << ", seed " << seed;
      largest = std::max(
          largest, static_cast<double>(run->plan.peak_bytes[rank]) / static_cast<double>(bytes));
    }
  }
  EXPECT_GT(largest, 1);
}

// What the layers of a plan declare on the fullest rank.
int64_t DeclaredBytes(const JointRequest& request, const JointPlan& joint) {
  const PlanRequest asked = RequestOf(request.common, joint.setting, joint.machines);
  const Candidate candidate{joint.plan.schedule, joint.plan.chunks, joint.plan.timetable, nullptr};
  const PartitionProblem problem = ProblemOf(asked, candidate);
  const std::vector<int64_t> bytes =
      PeakBytes(InFlight(joint.plan.timetable), PriceStages(problem, AssignmentOf(joint.plan)));
  return *std::max_element(bytes.begin(), bytes.end());
}

// One rank's run may take more beyond its layers than those of others: these keep their memory.
TEST(FindPlan, LeavesRoomOnTheDevicesThatNeedIt) {
  int repaired = 0, more = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlanQuestion question = RandomQuestion(seed);
    question.memory = INT64_MAX / 2;
    const PlanSource source = *MakeSource(question);
    const absl::StatusOr<JointPlan> roomy = MakeJointPlan(*MakeJointRequest(question, source));
    ASSERT_TRUE(roomy.ok()) << roomy.status();
    question.memory = roomy->plan.largest_peak_bytes();
    const PlanSource little = *MakeSource(question);
    const JointRequest request = *MakeJointRequest(question, little);
    const absl::StatusOr<JointPlan> found = FindPlan(question, little, request, {});
    if (!found.ok()) continue;
    EXPECT_LE(found->plan.largest_peak_bytes(), *question.memory) << seed;
    PlanQuestion anywhere = question;
    anywhere.memory = INT64_MAX / 2;
    JointPlan first = *roomy;
    ASSERT_TRUE(FitRun(anywhere, source, *MakeJointRequest(anywhere, source), &first).ok());
    int64_t beyond = 0;
    for (size_t rank = 0; rank < first.plan.peak_bytes.size(); ++rank) {
      if (first.plan.peak_bytes[rank] <= *question.memory) continue;
      beyond = std::max(beyond, first.plan.peak_bytes[rank] - roomy->plan.peak_bytes[rank]);
    }
    if (beyond == 0) continue;
    ++repaired;
    more += DeclaredBytes(request, *found) > *question.memory - beyond;
  }
  RecordProperty("repaired", repaired);
  RecordProperty("more", more);
  EXPECT_GT(more, 0);
}

// The bytes of a run of the partition and policies that need least, found by trying all.
int64_t LeastOfAll(const PlanQuestion& question) {
  const PlanSource source = *MakeSource(question);
  RunRequest run{.spec = *source.spec,
                 .batch = source.batch,
                 .dtype = source.dtype,
                 .timetable = PlanFor(question, INT64_MAX / 2, kBudget)->plan.timetable,
                 .partition = {},
                 .recompute = {},
                 .replicas = *question.data_parallel,
                 .zero = question.zero,
                 .optimizer = question.optimizer,
                 .kernels = source.kernels};
  const int stages = run.timetable.placement.stages();
  int64_t least = INT64_MAX;
  sluice::ForEachPartition(source.layers, stages, [&](const Partition& partition) {
    ForEachRecompute(question.policies, stages, [&](const std::vector<Recompute>& recompute) {
      run.partition = partition;
      run.recompute = recompute;
      const std::vector<int64_t> bytes = *RunMemory(run);
      least = std::min(least, *std::max_element(bytes.begin(), bytes.end()));
    });
  });
  return least;
}

// What the leanest layers declare says which partition has the leanest run only roughly. In each of
// these cases the run of what declares least needs more than that of some other partition or
// policies.
TEST(FindPlan, HasARunWhereverAnyFits) {
  for (const uint64_t seed : {1, 3, 4, 8, 17, 23}) {
    SCOPED_TRACE(seed);
    const PlanQuestion question = RandomQuestion(seed);
    const int64_t least = LeastOfAll(question);
    const absl::StatusOr<JointPlan> found = PlanFor(question, least, kBudget);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->plan.largest_peak_bytes(), least);
    const absl::StatusOr<JointPlan> less = PlanFor(question, least - 1, kBudget);
    EXPECT_THAT(std::string(less.status().message()), HasSubstr("(" + std::to_string(least)));
  }
}

// What the layers declare of ZeRO's shares is less than a run takes.
TEST(FindPlan, SaysWhatARunNeedsOfSeveralSettingsToo) {
  PlanQuestion question = SomeQuestion();
  question.schedule = "1f1b";
  question.micro_batches = {};
  question.global_batch = 16;
  question.data_parallel = {};
  question.zero = 2;
  ExpectWhatIsAskedForIsEnough(question);
}

}  // namespace
}  // namespace sluice
