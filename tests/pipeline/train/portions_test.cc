// A run that is made in portions, with evaluations and checkpoints between them, has the bits of one
// that is made at once; and what one process cannot do keeps no rank from what follows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "pipeline/train/portion.h"
#include "tests/comm/tcp/tcp_group.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kSteps = 6;

// Portions that are known beforehand.
class ListedPortions : public Portions {
 public:
  explicit ListedPortions(std::vector<Portion> portions) : portions_(std::move(portions)) {}
  std::optional<Portion> Await(int64_t number) override {
    newest_.store(number);
    const auto at = static_cast<size_t>(number);
    return at < portions_.size() ? std::make_optional(portions_[at]) : std::nullopt;
  }
  bool EndsEarly() override { return newest_.load() == ends_early_; }
  void EndEarly(int64_t number) { ends_early_ = number; }
  void Ended(int rank, const absl::StatusOr<TrainSummary>& summary) override {
    const std::lock_guard lock(mutex_);
    ++told_;
    if (rank == 0) ends_.push_back(summary);
  }
  // Of rank 0; [portion].
  const std::vector<absl::StatusOr<TrainSummary>>& ends() const { return ends_; }
  int told() const { return told_; }

 private:
  const std::vector<Portion> portions_;
  std::atomic<int64_t> newest_ = -1;
  int64_t ends_early_ = -1;  // after its first step
  std::mutex mutex_;
  std::vector<absl::StatusOr<TrainSummary>> ends_;
  int told_ = 0;
};

fs::path Scratch(const std::string& name) {
  fs::path path = fs::path(testing::TempDir()) / ("portions_" + name);
  fs::remove_all(path);
  return path;
}

class PortionsTest : public testing::TestWithParam<SmallRun> {};

TEST_P(PortionsTest, GiveTheBitsOfOneRun) {
  const RunPlan plan = MakePlan(GetParam());
  const Outcome& whole = OutcomeOnce(GetParam(), kSteps);
  const fs::path directory = Scratch(GetParam().Name());

  // More steps than are left are those that are left.
  ListedPortions portions({{.steps = 1},
                           {.evaluates = true},
                           {.steps = 3, .saves_to = directory.string()},
                           {.saves_to = directory.string()},
                           {},
                           {.steps = 1000, .evaluates = true, .hashes = true},
                           {.steps = 1}});
  TrainOptions options = SmallOptions(kSteps);
  options.portions = &portions;
  const absl::StatusOr<Outcome> outcome = Train(plan, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->losses, whole.losses);
  EXPECT_EQ(outcome->norms, whole.norms);

  const auto& ends = portions.ends();
  ASSERT_EQ(ends.size(), 7U);
  EXPECT_EQ(portions.told(), 7 * plan.world_size());
  const std::vector<int64_t> steps = {1, 1, 4, 4, 4, 6, 6}, taken = {1, 0, 3, 0, 0, 2, 0};
  for (size_t i = 0; i < ends.size(); ++i) {
    ASSERT_TRUE(ends[i].ok()) << i << ": " << ends[i].status();
    EXPECT_EQ(ends[i]->steps, steps[i]) << i;
    EXPECT_EQ(ends[i]->steps_taken, taken[i]) << i;
    EXPECT_EQ(ends[i]->evaluated, i == 1 || i == 5) << i;
    EXPECT_FALSE(ends[i]->interrupted) << i;
  }
  EXPECT_EQ(ends[5]->weights_hash, whole.weights_hash);
  EXPECT_EQ(ends[5]->eval_loss, whole.eval_loss);
  EXPECT_EQ(ends[3]->checkpoint, ends[2]->checkpoint);
  EXPECT_NE(ends[2]->checkpoint, "");

  // What a portion has saved is what a run of so many steps would have.
  TrainOptions rest = SmallOptions(kSteps);
  rest.saving.resume = directory.string();
  const absl::StatusOr<Outcome> resumed = Train(plan, rest);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->weights_hash, whole.weights_hash);
  fs::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, PortionsTest,
    testing::Values(SmallRun{.ranks = 1}, SmallRun{.schedule = "zb-h1", .ranks = 3},
                    SmallRun{.schedule = "interleaved", .ranks = 2, .chunks = 2},
                    SmallRun{.model = "tied", .ranks = 2, .dtype = DType::kBFloat16},
                    SmallRun{.model = "wide", .ranks = 2, .replicas = 2, .zero = 1},
                    SmallRun{.model = "wide", .ranks = 2, .adapted = "lora"}),
    [](const auto& run) { return run.param.Name(); });

// Without a flush, a portion's end is a pause as an evaluation is.
TEST(Portions, OfAnAsynchronousRunPauseIt) {
  const RunPlan plan = MakePlan({.schedule = "pipedream-2bw", .ranks = 2});
  TrainOptions paused = SmallOptions(kSteps);
  paused.watching.eval_every = 2;
  const absl::StatusOr<Outcome> wanted = Train(plan, paused);
  ASSERT_TRUE(wanted.ok()) << wanted.status();

  ListedPortions portions({{.steps = 2}, {.steps = 2}, {.steps = 2, .hashes = true}});
  TrainOptions options = SmallOptions(kSteps);
  options.portions = &portions;
  const absl::StatusOr<Outcome> outcome = Train(plan, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->losses, wanted->losses);
  EXPECT_EQ(outcome->weights_hash, wanted->weights_hash);
}

// The run's own directory has its last step, and its own evaluations have it, too.
TEST(Portions, EndAsTheRunWould) {
  const fs::path directory = Scratch("own");
  ListedPortions portions({{.steps = 4}, {.steps = 2}, {.saves_to = directory.string()}});
  TrainOptions options = SmallOptions(kSteps);
  options.portions = &portions;
  options.saving.directory = directory.string();
  options.watching.eval_every = 4;
  const absl::StatusOr<Outcome> outcome = Train(MakePlan({.ranks = 2}), options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_TRUE(portions.ends()[1].ok() && portions.ends()[2].ok());
  EXPECT_TRUE(portions.ends()[0]->evaluated);
  EXPECT_TRUE(portions.ends()[1]->evaluated);
  EXPECT_EQ(portions.ends()[0]->checkpoint, "");
  EXPECT_THAT(portions.ends()[1]->checkpoint, HasSubstr(absl::StrCat(kSteps)));
  EXPECT_EQ(portions.ends()[2]->checkpoint, portions.ends()[1]->checkpoint);
  fs::remove_all(directory);
}

TEST(Portions, ARefusedOneChangesNothing) {
  const Outcome& whole = OutcomeOnce({.ranks = 2}, kSteps);
  ListedPortions portions(
      {{.steps = 2},
       {.steps = 1, .evaluates = true, .refused = absl::InvalidArgumentError("no such thing")},
       {.steps = 4, .hashes = true}});
  TrainOptions options = SmallOptions(kSteps);
  options.portions = &portions;
  const absl::StatusOr<Outcome> outcome = Train(MakePlan({.ranks = 2}), options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->losses, whole.losses);
  EXPECT_EQ(outcome->weights_hash, whole.weights_hash);
  EXPECT_EQ(portions.ends()[1].status(), absl::InvalidArgumentError("no such thing"));
}

// Two processes, of which each has its own portions.
std::vector<absl::Status> TrainApart(ListedPortions* first, ListedPortions* second) {
  const std::vector<std::unique_ptr<Communicator>> group = MakeTcpGroup(2, {});
  std::vector<absl::Status> ends(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const RunPlan plan = MakePlan({.ranks = 2});
      const HashedData data(plan.request.spec, plan.request.batch.seq);
      TrainOptions options = SmallOptions(kSteps);
      options.portions = rank == 0 ? first : second;
      ends[rank] = TrainRank(plan, data, options, {}, nullptr, *group[rank]).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

TEST(Portions, WhatOneProcessRefusesNoneDoes) {
  const Outcome& whole = OutcomeOnce({.ranks = 2}, kSteps);
  ListedPortions first({{.steps = 2}, {.steps = 3, .saves_to = "x"}, {.steps = 4, .hashes = true}});
  ListedPortions second({{.steps = 2},
                         {.steps = 3, .refused = absl::InvalidArgumentError("a full disk")},
                         {.steps = 4, .hashes = true}});
  for (const absl::Status& end : TrainApart(&first, &second)) EXPECT_EQ(end, absl::OkStatus());
  ASSERT_EQ(first.ends().size(), 3U);
  EXPECT_THAT(std::string(first.ends()[1].status().message()), HasSubstr("rank 1"));
  EXPECT_EQ(first.ends()[2]->steps, kSteps);
  EXPECT_EQ(first.ends()[2]->weights_hash, whole.weights_hash);
  EXPECT_EQ(second.told(), 3);
}

// Only the program of one of them asks for it.
TEST(Portions, EndEarlyOnAllRanks) {
  const Outcome& whole = OutcomeOnce({.ranks = 2}, kSteps);
  const std::vector<Portion> asked = {
      {.steps = 4, .evaluates = true}, {.evaluates = true}, {.steps = 9, .hashes = true}};
  ListedPortions first(asked), second(asked);
  second.EndEarly(0);
  for (const absl::Status& end : TrainApart(&first, &second)) EXPECT_EQ(end, absl::OkStatus());
  for (ListedPortions* each : {&first, &second}) EXPECT_EQ(each->told(), 3);
  ASSERT_EQ(first.ends().size(), 3U);
  EXPECT_TRUE(first.ends()[0]->interrupted);
  EXPECT_FALSE(first.ends()[0]->evaluated);
  EXPECT_EQ(first.ends()[0]->steps, 1);
  EXPECT_TRUE(first.ends()[1]->evaluated);
  EXPECT_FALSE(first.ends()[2]->interrupted);
  EXPECT_EQ(first.ends()[2]->steps, kSteps);
  EXPECT_EQ(first.ends()[2]->weights_hash, whole.weights_hash);
}

TEST(Portions, OfSeveralProcessesMustBeTheSame) {
  const std::vector<std::vector<Portion>> others = {{},
                                                    {{.steps = 3}},
                                                    {{.steps = 2, .evaluates = true}},
                                                    {{.steps = 2, .saves_to = "x"}},
                                                    {{.steps = 2, .hashes = true}}};
  for (const std::vector<Portion>& other : others) {
    ListedPortions first(std::vector<Portion>{{.steps = 2}}), second(other);
    for (const absl::Status& end : TrainApart(&first, &second)) {
      EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument) << end;
      EXPECT_THAT(std::string(end.message()), HasSubstr("rank 1 was asked for another thing"));
    }
  }
}

TEST(Portions, OfSeveralProcessesAreSaidAsTheyWereAsked) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  const struct {
    Portion rank_0, rank_1;
    const char* said;
  } cases[] = {
      {{.steps = kAll}, {.steps = 3}, "(3 steps; rank 0: all steps that are left)"},
      {{.steps = 1}, {.steps = 2000000}, "(2000000 steps; rank 0: 1 step)"},
      {{.saves_to = "x"},
       {.saves_to = "y"},
       "(0 steps, a checkpoint in another folder; rank 0: 0 steps, a checkpoint)"},
      {{.saves_to = "x"}, {.hashes = true}, "(0 steps, a hash; rank 0: 0 steps, a checkpoint)"}};
  for (const auto& each : cases) {
    ListedPortions first({each.rank_0}), second({each.rank_1});
    for (const absl::Status& end : TrainApart(&first, &second))
      EXPECT_THAT(std::string(end.message()), HasSubstr(each.said));
  }
}

// A checkpoint that cannot be written is an end of its portion, not of the run.
TEST(Portions, GoOnAfterACheckpointThatFailed) {
  const Outcome& whole = OutcomeOnce({.ranks = 2}, kSteps);
  const fs::path file = Scratch("file");
  { std::ofstream(file) << "no directory"; }
  ListedPortions portions(
      {{.steps = 2}, {.saves_to = (file / "below").string()}, {.steps = 4, .hashes = true}});
  TrainOptions options = SmallOptions(kSteps);
  options.portions = &portions;
  const absl::StatusOr<Outcome> outcome = Train(MakePlan({.ranks = 2}), options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(portions.ends()[1].ok());
  EXPECT_EQ(outcome->losses, whole.losses);
  EXPECT_EQ(outcome->weights_hash, whole.weights_hash);
  fs::remove(file);
}

}  // namespace
}  // namespace sluice
