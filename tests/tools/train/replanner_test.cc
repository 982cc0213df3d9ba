// Ranks that turn out to be slow: what is proposed, against runs whose truth is known.
#include "tools/train/replanning/replanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "pipeline/compile/compile_run.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"
#include "tests/shared_folder.h"
#include "tools/train/train_job.h"
#include "tools/train/train_shape.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TrainQuestion Question(int stages) {
  TrainQuestion question;
  question.model.model = "char-gpt";
  question.model.layers = 10;
  question.model.dim = 64;
  question.model.heads = 2;
  question.data.path = (SourceFolder() / "tests/models/tokens/fixtures/llama2.json").string();
  question.data.bytes = Bytes::kAny;
  question.seq = 32;
  question.micro_batch_size = 2;
  question.timetable.stages = stages;
  question.timetable.micro_batches = 8;
  question.sum_groups = 8;
  question.options.training.steps = 100'000;
  return question;
}

// Ranks and layers whose true speeds are known, on which a run trains.
class Truth {
 public:
  Truth(const TrainQuestion& question, int processes, RankNumbers numbers = RankNumbers::kFree)
      : question_(question), processes_(processes) {
    data_ = Job({}).data;
    replanner_.emplace(question, data_, numbers);
    for (int rank = 0; rank < processes; ++rank) {
      speeds.ranks.push_back(1);
      numbers_.push_back(rank);
    }
    Begin({}, std::nullopt);
  }

  TrainJob Job(const MeasuredSpeeds& planned) const {
    TrainQuestion question = question_;
    question.speeds = planned;
    absl::StatusOr<TrainJob> job = MakeTrainJob(question, processes_, data_);
    EXPECT_TRUE(job.ok()) << job.status();
    return *std::move(job);
  }

  void Begin(const MeasuredSpeeds& planned, std::optional<Replan> replan) {
    absl::StatusOr<RunPlan> plan = CompileRun(Job(planned).request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = std::make_shared<const RunPlan>(*std::move(plan));
    replanner_->Begin(plan_, processes_, planned, std::move(replan));
  }

  // Trains `steps` steps, and what is proposed is done, until there is something.
  std::optional<Replan> Train(int steps) {
    for (; steps > 0; --steps) {
      if (std::optional<Replan> replan = Step()) return replan;
    }
    return std::nullopt;
  }

  // The group that does what was proposed.
  void Follow(const Replan& replan) {
    if (!replan.order.empty()) {
      const std::vector<double> before = speeds.ranks;
      const std::vector<int> numbers = numbers_;
      for (size_t rank = 0; rank < before.size(); ++rank) {
        speeds.ranks[rank] = before[static_cast<size_t>(replan.order[rank])];
        numbers_[rank] = numbers[static_cast<size_t>(replan.order[rank])];
      }
    }
    Begin(replan.speeds, replan);
  }

  // A step takes some seconds, up to a twentieth more or less.
  std::optional<Replan> Step() {
    TrainQuestion question = question_;
    question.speeds = speeds;
    const Timetable timetable = ComputeOnly(plan_->lowered);
    for (size_t rank = 0; slow_seconds > 0 && rank < numbers_.size(); ++rank)
      question.speeds.links.push_back(Link(rank, (rank + 1) % numbers_.size()) / kUnit);
    absl::StatusOr<StageCosts> costs = PriceDefaultStages(
        LayersOf(question, plan_->request.spec, plan_->ranks(), plan_->replicas()), timetable,
        plan_->request.partition);
    EXPECT_TRUE(costs.ok()) << costs.status();
    costs->link_busy = costs->send;
    const absl::StatusOr<Simulation> run = Simulate(timetable, *costs);
    EXPECT_TRUE(run.ok()) << run.status();
    std::uniform_real_distribution<double> noise(0.95, 1.05);
    std::vector<double> seconds;
    for (const StageOnRank& at : StagesOnRanks(*plan_)) {
      const auto stage = static_cast<size_t>(at.stage);
      seconds.push_back((costs->forward[stage] + costs->backward[stage]) * kUnit * noise(random_));
    }
    last_seconds = run->makespan * kUnit;
    if (replanner_->WantsLinks()) {
      ++probes;
      std::vector<MeasuredLink> links(numbers_.size() * numbers_.size());
      for (size_t a = 0; a < numbers_.size(); ++a) {
        for (size_t b = 0; b < numbers_.size(); ++b)
          links[a * numbers_.size() + b].latency = a == b ? 0 : Link(a, b);
      }
      replanner_->TakeLinks(links);
    }
    return replanner_->Observe({++step_, last_seconds, seconds});
  }

  void Refuse() { replanner_->WaitLonger(); }
  std::optional<ReplanGain> Gain() { return replanner_->TakeGain(); }
  std::string partition() const { return FormatPartition(plan_->request.partition); }
  const RunPlan& plan() const { return *plan_; }

  MeasuredSpeeds speeds;  // the truth
  double slow_seconds =
      0;  // of a message between the processes that were ranks 0 and 1; others: none
  double last_seconds = 0;
  int probes = 0;

 private:
  double Link(size_t a, size_t b) const {
    return numbers_[a] + numbers_[b] == 1 ? slow_seconds : 1e-5;
  }

  static constexpr double kUnit = 50;  // of a second by FLOPs alone: a step then takes some

  const TrainQuestion question_;
  const int processes_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const RunPlan> plan_;
  std::optional<Replanner> replanner_;
  std::vector<int> numbers_;  // [rank] the one that it had at first
  std::mt19937_64 random_{7};
  int64_t step_ = 0;
};

TEST(ReplannerTest, LetsEqualRanksBe) {
  for (const int stages : {1, 2, 4}) {
    Truth truth(Question(stages), stages);
    EXPECT_FALSE(truth.Train(300).has_value()) << stages;
    EXPECT_FALSE(truth.Gain().has_value());
  }
}

TEST(ReplannerTest, GivesASlowRankLess) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"}) {
    TrainQuestion question = Question(4);
    question.timetable.schedule = schedule;
    Truth truth(question, 4);
    ASSERT_FALSE(truth.Train(100).has_value());
    const std::string before = truth.partition();
    truth.speeds.ranks[2] = 0.5;
    const std::optional<Replan> replan = truth.Train(100);
    ASSERT_TRUE(replan.has_value()) << schedule;
    EXPECT_THAT(replan->why, HasSubstr("rank 2 takes 2.0 times as long as planned")) << schedule;
    EXPECT_TRUE(replan->order.empty());
    EXPECT_NEAR(replan->step_seconds, truth.last_seconds, 1e-6 * truth.last_seconds);
    truth.Follow(*replan);
    EXPECT_NE(truth.partition(), before);
    EXPECT_FALSE(truth.Train(300).has_value()) << schedule;
    const std::optional<ReplanGain> gain = truth.Gain();
    ASSERT_TRUE(gain.has_value()) << schedule;
    EXPECT_NEAR(gain->step_seconds, truth.last_seconds, 1e-6 * truth.last_seconds);
    EXPECT_LT(gain->step_seconds, gain->before_seconds / 1.1) << schedule;
    EXPECT_NEAR(gain->step_seconds, gain->expected_seconds, 0.06 * gain->expected_seconds);
    EXPECT_GT(replan->bound_seconds, 0);
    EXPECT_LE(replan->bound_seconds, replan->expected_seconds * (1 + 1e-9));
    EXPECT_FALSE(truth.Gain().has_value());
  }
}

TEST(ReplannerTest, GivesItBackOnceTheRankIsFastAgain) {
  Truth truth(Question(2), 2);
  const std::string before = truth.partition();
  truth.speeds.ranks[0] = 0.5;  // from the first step on
  const std::optional<Replan> slow = truth.Train(100);
  ASSERT_TRUE(slow.has_value());
  truth.Follow(*slow);
  EXPECT_FALSE(truth.Train(50).has_value());
  truth.speeds.ranks[0] = 1;
  const std::optional<Replan> fast = truth.Train(100);
  ASSERT_TRUE(fast.has_value());
  EXPECT_THAT(fast->why, HasSubstr("times as fast as planned"));
  truth.Follow(*fast);
  EXPECT_EQ(truth.partition(), before);
  EXPECT_FALSE(truth.Train(200).has_value());
}

// A stage is a third slower than its FLOPs say on whichever rank it is: that is no slow rank.
TEST(ReplannerTest, KnowsLayersFromRanks) {
  TrainQuestion question = Question(2);
  Truth truth(question, 2);
  truth.speeds.layers.assign(truth.plan().layers.size(), 1);
  truth.speeds.layers.back() = 2.5;  // the head
  std::optional<Replan> replan = truth.Train(100);
  if (replan) {
    EXPECT_THAT(replan->why, HasSubstr("layers take other times than their FLOPs say"));
    truth.Follow(*replan);
    EXPECT_FALSE(truth.Train(200).has_value());
  }
  truth.speeds.ranks[0] = 0.4;
  replan = truth.Train(100);
  ASSERT_TRUE(replan.has_value());
  EXPECT_THAT(replan->why, HasSubstr("rank 0 takes 2.5 times as long"));
}

TEST(ReplannerTest, LeavesOutARankThatIsOnlyInTheWay) {
  TrainQuestion question = Question(1);
  question.timetable.stages.reset();
  question.timetable.auto_stages = true;
  Truth truth(question, 3);
  ASSERT_EQ(truth.plan().world_size(), 3);
  truth.speeds.ranks[0] = 0.05;
  const std::optional<Replan> replan = truth.Train(100);
  ASSERT_TRUE(replan.has_value());
  EXPECT_THAT(replan->order, testing::ElementsAre(1, 2, 0));
  truth.Follow(*replan);
  EXPECT_EQ(truth.plan().world_size(), 2);
  EXPECT_FALSE(truth.Train(200).has_value());
  EXPECT_LT(truth.Gain()->step_seconds, replan->step_seconds / 3);
}

// Under a launcher it keeps its number and some work.
TEST(ReplannerTest, LeavesNoRankOfALauncherOut) {
  TrainQuestion question = Question(1);
  question.timetable.stages.reset();
  question.timetable.auto_stages = true;
  for (const double speed : {0.4, 0.05}) {
    Truth truth(question, 3, RankNumbers::kFixed);
    ASSERT_EQ(truth.plan().world_size(), 3);
    truth.speeds.ranks[0] = speed;
    const std::optional<Replan> replan = truth.Train(100);
    ASSERT_TRUE(replan.has_value());
    EXPECT_TRUE(replan->order.empty());
    truth.Follow(*replan);
    EXPECT_EQ(truth.plan().world_size(), 3);
    EXPECT_FALSE(truth.Train(200).has_value());
    EXPECT_LT(truth.Gain()->step_seconds, replan->step_seconds / 1.1);
  }
  Truth linked(Question(3), 3, RankNumbers::kFixed);
  ASSERT_FALSE(linked.Train(60).has_value());
  linked.slow_seconds = linked.last_seconds / 4;
  const std::optional<Replan> replan = linked.Train(200);
  EXPECT_TRUE(!replan || replan->order.empty());
}

TEST(ReplannerTest, WaitsLongerWhereRanksRefuse) {
  Truth truth(Question(2), 2);
  truth.speeds.ranks[1] = 0.5;
  std::vector<int> waits;
  for (int round = 0; round < 4; ++round) {
    int steps = 0;
    while (!truth.Step() && steps < 2000) ++steps;
    waits.push_back(steps);
    truth.Refuse();
    truth.Begin({}, std::nullopt);
  }
  EXPECT_GT(waits[1], waits[0]) << testing::PrintToString(waits);
  EXPECT_GT(waits[3], 1.5 * waits[2]) << testing::PrintToString(waits);
}

TEST(ReplannerTest, LeavesOutASlowLink) {
  Truth truth(Question(3), 3);
  ASSERT_FALSE(truth.Train(60).has_value());
  EXPECT_GT(truth.probes, 3);
  EXPECT_LT(truth.probes, 15);  // every five seconds
  const double quick = truth.last_seconds;
  truth.slow_seconds = quick / 4;
  const std::optional<Replan> replan = truth.Train(200);
  ASSERT_TRUE(replan.has_value());
  EXPECT_THAT(replan->why, HasSubstr("a message from rank 0 to rank 1 takes"));
  truth.Follow(*replan);
  EXPECT_FALSE(truth.Train(200).has_value());
  EXPECT_NEAR(truth.last_seconds, quick, 0.01 * quick);
  EXPECT_LT(truth.Gain()->step_seconds, replan->step_seconds / 1.1);
}

// There is no way around the link between two ranks, but a timetable that waits for it less.
TEST(ReplannerTest, WaitsLessForASlowLink) {
  TrainQuestion question = Question(2);
  question.timetable.schedule = "auto";
  Truth truth(question, 2);
  ASSERT_FALSE(truth.Train(60).has_value());
  truth.slow_seconds = truth.last_seconds / 6;
  const std::optional<Replan> replan = truth.Train(200);
  ASSERT_TRUE(replan.has_value());
  EXPECT_TRUE(replan->order.empty());
  const std::string partition = truth.partition();
  truth.Follow(*replan);
  const std::optional<Replan> again = truth.Train(100);
  EXPECT_FALSE(again.has_value()) << again->why;
  EXPECT_LT(truth.Gain()->step_seconds, replan->step_seconds / 1.1);
}

TEST(ReplannerTest, AllReplicasGoBySlowestOfARank) {
  TrainQuestion question = Question(2);
  question.data_parallel = 2;
  question.timetable.micro_batches = 4;
  Truth truth(question, 4);
  truth.speeds.ranks[3] = 0.5;  // stage 1 of replica 1
  const std::optional<Replan> replan = truth.Train(100);
  ASSERT_TRUE(replan.has_value());
  truth.Follow(*replan);
  EXPECT_GT(truth.plan().request.partition[0].size(), truth.plan().request.partition[1].size());
  EXPECT_FALSE(truth.Train(200).has_value());
}

TEST(ReplannerTest, WaitsLongerWhereNothingIsGained) {
  Truth truth(Question(2), 2);
  std::vector<int> waits;
  for (int round = 0; round < 4; ++round) {
    // Whoever has more to do is slow: no plan is any better.
    truth.speeds.ranks = round % 2 == 0 ? std::vector<double>{0.4, 1} : std::vector<double>{1, 0.4};
    int steps = 0;
    std::optional<Replan> replan;
    while (!replan && ++steps < 2000) replan = truth.Step();
    ASSERT_TRUE(replan.has_value());
    waits.push_back(steps);
    truth.Follow(*replan);
    truth.speeds.ranks = round % 2 == 0 ? std::vector<double>{1, 0.4} : std::vector<double>{0.4, 1};
    ASSERT_FALSE(truth.Train(6).has_value());
  }
  EXPECT_GT(waits[3], 1.5 * waits[1]) << testing::PrintToString(waits);
}

TEST(ReplannerTest, LeavesTheLastStepsAsTheyAre) {
  for (const int steps : {14, 1000}) {
    TrainQuestion question = Question(2);
    question.options.training.steps = steps;
    Truth truth(question, 2);
    truth.speeds.ranks[1] = 0.5;
    EXPECT_EQ(truth.Train(14).has_value(), steps > 14) << truth.last_seconds;
  }
}

TEST(ReplannerTest, AsksOnlyWhereTheWorkIsOpen) {
  TrainQuestion question = Question(2);
  EXPECT_TRUE(MayReplan(question));
  question.partition = "0-5,6-11";
  EXPECT_FALSE(MayReplan(question));
  question = Question(2);
  question.timetable.plan = "plan.json";
  EXPECT_FALSE(MayReplan(question));
  question = Question(2);
  question.timetable.stage_members = {1, 2};
  EXPECT_FALSE(MayReplan(question));
  for (const char* schedule : {"pipedream", "chimera"}) {
    question = Question(2);
    question.timetable.schedule = schedule;
    question.sum_groups.reset();
    const absl::StatusOr<TrainJob> job = MakeTrainJob(question, 2);
    ASSERT_TRUE(job.ok()) << job.status();
    absl::StatusOr<RunPlan> plan = CompileRun(job->request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    Replanner replanner(question, job->data);
    replanner.Begin(std::make_shared<const RunPlan>(*std::move(plan)), 2, {}, std::nullopt);
    for (int64_t step = 1; step <= 50; ++step)
      EXPECT_FALSE(replanner.Observe({step, 1, {0.1, 0.9, 0.1, 0.9}}).has_value()) << schedule;
  }
}

TEST(MeasuredSpeedsTest, TextSaysTheSame) {
  const MeasuredSpeeds speeds = {
      .ranks = {1, 0.48, 0.971}, .layers = {1, 1, 1.3, 1.3, 1}, .links = {0, 0.5, 0.012}};
  EXPECT_EQ(speeds.ToText(), "1,0.48,0.971 0:1,2:1.3,4:1 0,0.5,0.012");
  const absl::StatusOr<MeasuredSpeeds> read = ParseMeasuredSpeeds(speeds.ToText(), 5);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, speeds);
  EXPECT_EQ(MeasuredSpeeds().ToText(), "");
  EXPECT_FALSE(ParseMeasuredSpeeds("", 5)->known());
  for (const char* text : {"1", "1,x 0:1 ", "1,0 0:1 ", "1,-1 0:1 ", "1,inf 0:1 ", "1 1:1 ",
                           "1 0:1,5:2 ", "1 0:1,0:2 ", "1 0", "1 0:1", "1 0:nan ", "1,, 0:1 ",
                           "1 0:1 1,1", "1 0:1 -1", "1 0:1 x", "1 0:1  "}) {
    EXPECT_FALSE(ParseMeasuredSpeeds(text, 5).ok()) << text;
  }
}

}  // namespace
}  // namespace sluice
