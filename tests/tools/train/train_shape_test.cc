// Stages and replicas for the ranks there are.
#include "tools/train/train_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using testing::HasSubstr;

ModelSpec SmallGpt() {
  ModelChoice choice;
  choice.model = "char-gpt";
  choice.layers = 4;
  choice.dim = 128;
  choice.heads = 4;
  const absl::StatusOr<ModelSpec> spec = ResolveTrainable(choice, 64);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *spec;
}

TrainQuestion Question(bool stages, bool replicas) {
  TrainQuestion question;
  question.seq = 64;
  question.timetable.auto_stages = stages;
  question.auto_data_parallel = replicas;
  question.timetable.micro_batches = 12;
  return question;
}

TEST(ChooseShapeTest, KeepsTheStepAndItsSumsForAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    TrainQuestion question = Question(true, true);
    ASSERT_EQ(ChooseShape(SmallGpt(), ranks, &question), absl::OkStatus());
    const int stages = question.timetable.stages.value();
    EXPECT_LE(stages * question.data_parallel, ranks);
    EXPECT_EQ(question.data_parallel * question.timetable.micro_batches.value(), 12);
    EXPECT_EQ(question.sum_groups, 12);
    // No rank is left without work where a stage or a replica more could use it.
    if (ranks != 5 && ranks != 7) {
      EXPECT_GE(stages * question.data_parallel, ranks - 1) << ranks;
    }
  }
}

TEST(ChooseShapeTest, KeepsWhatIsSaid) {
  TrainQuestion question = Question(false, true);
  question.timetable.stages = 2;
  ASSERT_EQ(ChooseShape(SmallGpt(), 6, &question), absl::OkStatus());
  EXPECT_EQ(question.timetable.stages, 2);
  EXPECT_EQ(question.data_parallel, 3);
  EXPECT_EQ(question.timetable.micro_batches, 4);

  question = Question(true, false);
  question.data_parallel = 2;
  ASSERT_EQ(ChooseShape(SmallGpt(), 6, &question), absl::OkStatus());
  EXPECT_EQ(question.data_parallel, 2);
  EXPECT_EQ(question.timetable.stages, 3);
  EXPECT_EQ(question.timetable.micro_batches, 12);  // of each replica, as without auto
  EXPECT_FALSE(question.sum_groups.has_value());

  question = Question(true, true);
  question.sum_groups = 2;
  ASSERT_EQ(ChooseShape(SmallGpt(), 4, &question), absl::OkStatus());
  EXPECT_LE(question.data_parallel, 2);
  EXPECT_EQ(question.sum_groups, 2);
}

TEST(ChooseShapeTest, GivesWorkByTheSpeedsOfRanks) {
  TrainQuestion question = Question(true, false);
  question.speeds = {.ranks = {1, 1, 0.02}};
  ASSERT_EQ(ChooseShape(SmallGpt(), 3, &question), absl::OkStatus());
  EXPECT_EQ(question.timetable.stages, 2) << "the last rank would only be in the way";
  question = Question(false, false);
  question.timetable.stages = 2;
  question.data_parallel = 2;
  question.speeds = {.ranks = {1, 1, 0.4, 1}};
  const ModelSpec gpt = SmallGpt();
  EXPECT_EQ(LayersOf(question, gpt, 2, 2).rank_speeds, (std::vector<double>{0.4, 1}));
  EXPECT_EQ(LayersOf(question, gpt, 4, 1).rank_speeds, question.speeds.ranks);
  EXPECT_TRUE(LayersOf(question, gpt, 5, 1).rank_speeds.empty());
}

TEST(ChooseShapeTest, OneRankMirrorsAndAuditsNobody) {
  for (const int ranks : {1, 2}) {
    TrainQuestion question = Question(true, false);
    question.mirror = true;
    question.audit_every = 5;
    ASSERT_EQ(ChooseShape(SmallGpt(), ranks, &question), absl::OkStatus());
    EXPECT_EQ(question.mirror, ranks == 2);
    EXPECT_EQ(question.audit_every, ranks == 2 ? 5 : 0);
  }
}

TEST(ChooseShapeTest, ReplicasOnlyWhereTheScheduleHasThem) {
  for (const char* schedule : {"pipedream", "chimera"}) {
    TrainQuestion question = Question(true, true);
    question.timetable.schedule = schedule;
    ASSERT_EQ(ChooseShape(SmallGpt(), 4, &question), absl::OkStatus()) << schedule;
    EXPECT_EQ(question.data_parallel, 1) << schedule;
  }
}

TEST(ChooseShapeTest, SaysWhyNothingFits) {
  TrainQuestion question = Question(false, true);
  question.timetable.stages = 4;
  EXPECT_THAT(ChooseShape(SmallGpt(), 3, &question).message(), HasSubstr("fits 3 ranks"));
  question = Question(true, false);
  question.data_parallel = 5;
  question.partition = "0-5";
  EXPECT_THAT(ChooseShape(SmallGpt(), 5, &question).message(), HasSubstr("--partition says"));
}

}  // namespace
}  // namespace sluice
