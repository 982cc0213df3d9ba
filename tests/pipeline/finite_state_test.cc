#include "pipeline/train/finite_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/finite_tensors.h"
#include "pipeline/run/rank_threads.h"
#include "schedules/generators/catalogue.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/checkpoint/save_tensors.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

TEST(FirstNotFinite, FindsEveryKindOfItAtEveryPlace) {
  // More than two blocks, and a remainder.
  std::vector<float> values(9001, -kLargest);
  values[7] = std::numeric_limits<float>::denorm_min();
  values[8] = -0.0F;
  const auto count = static_cast<int64_t>(values.size());
  EXPECT_EQ(FirstNotFinite(values.data(), count), count);
  EXPECT_EQ(FirstNotFinite(values.data(), 0), 0);
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (const size_t at : {0U, 1U, 4095U, 4096U, 8191U, 8192U, 9000U}) {
      values[at] = bad;
      EXPECT_EQ(FirstNotFinite(values.data(), count), static_cast<int64_t>(at)) << bad;
      EXPECT_EQ(FirstNotFinite(values.data(), static_cast<int64_t>(at)), static_cast<int64_t>(at));
      // Of two, the first one is reported.
      const float later = values.back();
      values.back() = kNan;
      EXPECT_EQ(FirstNotFinite(values.data(), count), static_cast<int64_t>(at));
      values.back() = later;
      values[at] = 1;
    }
  }
}

// A value to be put into the state of a rank.
struct Spoiled {
  int rank = 0;
  int view = 0;  // of the rank's parameters; -1: the largest of them
  StateKind kind = StateKind::kWeight;
  float value = kNan;
};

void Spoil(const Spoiled& spoiled, RankState& state) {
  const std::vector<ParameterView>& views = state.parameters();
  const auto largest = std::max_element(
      views.begin(), views.end(),
      [](const ParameterView& a, const ParameterView& b) { return a.count < b.count; });
  const ParameterView& view =
      spoiled.view < 0 ? *largest : views[static_cast<size_t>(spoiled.view)];
  float* values = spoiled.kind == StateKind::kWeight    ? static_cast<float*>(view.weight)
                  : spoiled.kind == StateKind::kMoment1 ? view.moment1
                                                        : view.moment2;
  values[(spoiled.kind == StateKind::kWeight ? view.elements : view.count) - 1] = spoiled.value;
}

// The answer of every rank of `plan` as text; "" where it finds nothing.
std::vector<std::string> Find(const RunPlan& plan, const std::vector<Spoiled>& spoiled) {
  const int ranks = plan.world_size();
  std::vector<std::string> found(static_cast<size_t>(ranks));
  InProcessGroup group(ranks);
  const absl::Status status =
      RunRanks(group, ranks, {.pin = false}, [&](int rank, Communicator& world) {
        absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, rank);
        if (!state.ok()) return state.status();
        (*state)->Initialize(1);
        for (const Spoiled& value : spoiled) {
          if (value.rank == rank) Spoil(value, **state);
        }
        const absl::StatusOr<std::optional<StateTensor>> first =
            FindNotFinite(**state, world, absl::Seconds(60));
        if (!first.ok()) return first.status();
        if (first->has_value()) found[static_cast<size_t>(rank)] = Describe(**first, plan);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return found;
}

TEST(FindNotFinite, EveryRankNamesTheSameTensor) {
  const RunPlan plan = MakePlan({.ranks = 3});
  EXPECT_THAT(Find(plan, {}), testing::Each(""));
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  const Spoiled last{.rank = 2, .kind = StateKind::kMoment2, .value = -kInfinity};
  const Spoiled middle{.rank = 1, .view = 3, .kind = StateKind::kMoment1, .value = kInfinity};
  const Spoiled later{.rank = 1, .view = 4};
  const Spoiled first{.rank = 0, .view = 1};
  EXPECT_THAT(Find(plan, {last}), testing::Each(AllOf(HasSubstr("the second moment of "),
                                                      HasSubstr("(rank 2, stage 2)"))));
  EXPECT_THAT(
      Find(plan, {last, middle, later}),
      testing::Each(AllOf(HasSubstr("the first moment of "), HasSubstr("(rank 1, stage 1)"))));
  EXPECT_THAT(Find(plan, {last, first, middle}),
              testing::Each(parameters[1]->name + " (rank 0, stage 0)"));
}

TEST(FindNotFinite, SlicesOfReplicasAndStagesOfChunksAreLookedAt) {
  const RunPlan sliced = MakePlan({.model = "wide", .ranks = 2, .replicas = 2, .zero = 2});
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_THAT(Find(sliced, {{.rank = rank, .view = -1, .kind = StateKind::kMoment1}}),
                testing::Each(HasSubstr(absl::StrCat("(rank ", rank, ", stage ", rank % 2, ")"))));
  }
  const RunPlan chunks = MakePlan({.schedule = "interleaved", .ranks = 2, .chunks = 3});
  EXPECT_THAT(Find(chunks, {{.rank = 1, .view = 30}, {.rank = 0, .view = 60}}),
              testing::Each(HasSubstr("(rank 1, stage ")));
}

class NeverSaved : public testing::Test {
 protected:
  // Lets the values of one update overflow: they stay finite for one step more.
  static TrainOptions Overflowing(int64_t steps) {
    TrainOptions options = SmallOptions(steps);
    options.training.optimizer.lr = 3e38;
    options.training.optimizer.weight_decay = 1e3;
    return options;
  }
  static std::string ErrorOf(const RunPlan& plan, const TrainOptions& options) {
    const absl::Status status = Train(plan, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  }
  // Bytes of every file below the folder.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      contents[entry.path()] = entry.is_directory() ? "" : ReadBytes(entry.path());
    }
    contents["latest"] = fs::read_symlink(directory_ + "/latest");
    return contents;
  }

  TempFolder folder_;
  std::string directory_ = folder_ / "run";
};

TEST_F(NeverSaved, TheLastUpdateIsLookedAt) {
  for (const SmallRun& run :
       {SmallRun{.ranks = 2}, SmallRun{.ranks = 2, .replicas = 2, .zero = 1}}) {
    const std::string error = ErrorOf(MakePlan(run), Overflowing(1));
    EXPECT_THAT(error, AllOf(HasSubstr("after step 1 the values of "), HasSubstr("rank 0, stage 0"),
                             HasSubstr("are not all finite"), HasSubstr("--lr"),
                             Not(HasSubstr("saved")), Not(HasSubstr("checkpoint"))));
  }
}

TEST_F(NeverSaved, WhatWasSavedBeforeStaysAndIsNamed) {
  const RunPlan plan = MakePlan({.ranks = 3});
  TrainOptions good = SmallOptions(4);
  good.saving.directory = directory_;
  good.saving.every = 2;
  ASSERT_TRUE(Train(plan, good).ok());
  const auto before = Contents();
  TrainOptions bad = Overflowing(6);
  bad.training.given = {.lr = bad.training.optimizer.lr,
                        .weight_decay = bad.training.optimizer.weight_decay};
  bad.saving.resume = directory_;
  bad.saving.directory = directory_;
  bad.saving.every = 1;
  EXPECT_THAT(ErrorOf(plan, bad),
              AllOf(HasSubstr("after step 5 "), HasSubstr("so they are not saved"),
                    HasSubstr("the newest good checkpoint is " + directory_ + "/step-00000004")));
  EXPECT_EQ(Contents(), before);
  // In the middle of a run: the loss shows it first, and its layer is named.
  bad.saving.every = 0;
  EXPECT_THAT(ErrorOf(plan, bad),
              AllOf(HasSubstr("step 6: the loss is "), HasSubstr("weights are as before this step"),
                    HasSubstr("when the values of "), HasSubstr("were not all finite"),
                    HasSubstr(directory_ + "/step-00000004")));
  // Without a folder to save to, the folder that the run was resumed from is named.
  bad.saving.directory = "";
  bad.saving.resume = directory_ + "/step-00000002";
  bad.training.steps = 3;
  EXPECT_THAT(ErrorOf(plan, bad),
              AllOf(HasSubstr("after step 3 "), HasSubstr(directory_ + "/step-00000002")));
  EXPECT_EQ(Contents(), before);
}

TEST_F(NeverSaved, WhereNothingIsSavedYetTheOneThatItWentOnFromIsNamed) {
  const RunPlan plan = MakePlan({.ranks = 2});
  TrainOptions good = SmallOptions(2);
  good.saving.directory = directory_;
  ASSERT_TRUE(Train(plan, good).ok());
  TrainOptions bad = Overflowing(3);
  bad.training.given = {.lr = bad.training.optimizer.lr,
                        .weight_decay = bad.training.optimizer.weight_decay};
  bad.saving.resume = directory_;
  bad.saving.directory = folder_ / "new";
  EXPECT_THAT(ErrorOf(plan, bad),
              AllOf(HasSubstr("so they are not saved"),
                    HasSubstr("the newest good checkpoint is " + directory_ + "/step-00000002")));
}

TEST_F(NeverSaved, ANewFolderStaysEmpty) {
  TrainOptions bad = Overflowing(1);
  bad.saving.directory = directory_;
  fs::create_directory(directory_);
  EXPECT_THAT(ErrorOf(MakePlan({.ranks = 2}), bad),
              HasSubstr("there is no good checkpoint in " + directory_));
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(NeverSaved, WithoutAFlushTheNewestOneIsNamedToo) {
  const absl::StatusOr<Timetable> table =
      GenerateSchedule("pipedream", {.ranks = 2, .micro_batches = 8});
  ASSERT_TRUE(table.ok());
  RunRequest request = MakeRequest({.ranks = 2}, *table);
  request.step_micro_batches = 4;
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  TrainOptions good = SmallOptions(2);
  good.saving.directory = directory_;
  ASSERT_TRUE(Train(*plan, good).ok());
  TrainOptions bad = Overflowing(4);
  bad.training.given = {.lr = bad.training.optimizer.lr,
                        .weight_decay = bad.training.optimizer.weight_decay};
  bad.saving.resume = directory_;
  EXPECT_THAT(ErrorOf(*plan, bad),
              AllOf(HasSubstr("step 3: "), HasSubstr("are no longer all finite"),
                    HasSubstr(directory_ + "/step-00000002")));
}

class NotResumed : public NeverSaved {
 protected:
  // Saves the state of step 3 again, as that of `step`, with a value that is not finite, as older
  // programs could.
  void SaveSpoiled(int64_t step, const std::string& what, float value) {
    const absl::StatusOr<LoadedCheckpoint> good = OpenCheckpoint(directory_ + "/step-00000003");
    ASSERT_TRUE(good.ok()) << good.status();
    std::vector<std::vector<float>> values;
    const auto tensors = [&values](const SafetensorsFile& file) {
      std::vector<TensorSource> sources;
      for (const TensorEntry& entry : file.entries()) {
        values.emplace_back((entry.end - entry.begin) / sizeof(float));
        EXPECT_TRUE(file.Read(entry.name, entry.shape, values.back().data()).ok());
        sources.push_back({entry.name, entry.shape, values.back().data()});
      }
      return sources;
    };
    const std::vector<TensorSource> weights = tensors(*good->weights);
    const size_t first_moment = values.size();
    const std::vector<TensorSource> moments = tensors(*good->optimizer);
    values[what == "weights" ? 2 : first_moment + 1].back() = value;
    RunState state = good->state;
    state.step = step;
    const auto saved = SaveTensors(directory_, state, weights, moments, /*keep=*/10);
    ASSERT_TRUE(saved.ok()) << saved.status();
  }
};

TEST_F(NotResumed, TheNewestGoodCheckpointIsNamedOrTaken) {
  const RunPlan plan = MakePlan({.ranks = 2});
  TrainOptions options = SmallOptions(3);
  options.saving.directory = directory_;
  ASSERT_TRUE(Train(plan, options).ok());
  SaveSpoiled(4, "weights", kNan);
  TrainOptions rest = SmallOptions(6);
  rest.saving.resume = directory_ + "/step-00000004";
  absl::Status status = Train(plan, rest).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("step-00000004/model.safetensors: tensor '"), HasSubstr("' is nan at"),
            HasSubstr("the newest good checkpoint is " + directory_ + "/step-00000003")));
  SaveSpoiled(5, "moments", -kInfinity);
  rest.saving.resume = directory_ + "/step-00000005";
  status = Train(plan, rest).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step-00000005/optimizer.safetensors: tensor '"),
                    HasSubstr("' is -inf at"), HasSubstr(directory_ + "/step-00000003")));
  // A directory means its newest good one.
  rest.saving.resume = directory_;
  const auto resumed = Train(plan, rest);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->weights_hash, Train(plan, SmallOptions(6))->weights_hash);
  fs::remove_all(directory_ + "/step-00000003");
  status = Train(plan, rest).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no other good checkpoint"));
}

}  // namespace
}  // namespace sluice
