// A run that stops and is resumed, on any number of stages, ends with the bits of a run that never
// stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/model_config.h"
#include "pipeline/train/run_checkpoint.h"
#include "tests/pipeline/checkpoint/forged_checkpoint.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Handover {
  SmallRun before;
  SmallRun after;
};

std::vector<Handover> Handovers() {
  const SmallRun one{.schedule = "gpipe", .ranks = 1};
  const SmallRun two{.schedule = "1f1b", .ranks = 2, .partition_seed = 5};
  const SmallRun six{
      .schedule = "interleaved", .ranks = 2, .chunks = 3, .recompute = Recompute::kFull};
  const SmallRun split{.schedule = "zb-h1", .ranks = 3, .recompute = Recompute::kSelective};
  std::vector<Handover> handovers;
  for (const SmallRun& before : {one, two, six, split}) {
    for (const SmallRun& after : {one, two, six, split}) handovers.push_back({before, after});
  }
  SmallRun tied = two;
  tied.model = "tied";
  SmallRun tied_one = one;
  tied_one.model = "tied";
  handovers.push_back({tied, tied_one});
  handovers.push_back({tied_one, tied});
  SmallRun mlp{
      .model = "mlp", .ranks = 3, .dtype = DType::kBFloat16, .optimizer = OptimizerKind::kSgd};
  handovers.push_back({mlp, mlp});
  SmallRun split_weights = tied;
  split_weights.dtype = DType::kBFloat16;
  split_weights.master_weights = MasterWeights::kSplit;
  SmallRun in_slices = split_weights;
  in_slices.ranks = 1;
  in_slices.micro_batches /= 2;
  in_slices.sum_groups = 2;
  in_slices.replicas = 2;
  in_slices.zero = 1;
  split_weights.sum_groups = 2;
  handovers.push_back({split_weights, in_slices});
  handovers.push_back({in_slices, split_weights});
  // Frozen weights that are kept in bf16, and saved as fp32.
  for (const char* adapted : {"lora", "freeze", "dropout"}) {
    for (SmallRun* run : {&tied, &tied_one}) {
      run->adapted = adapted;
      run->dtype = DType::kBFloat16;
    }
    handovers.push_back({tied, tied_one});
    handovers.push_back({tied_one, tied});
  }
  return handovers;
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = absl::StrCat(test->test_suite_name(), test->name());
    for (char& c : name) c = c == '/' ? '_' : c;
    directory_ = fs::path(testing::TempDir()) / name;
    fs::remove_all(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_;
};

class Resume : public CheckpointTest, public testing::WithParamInterface<Handover> {};

TEST_P(Resume, EndsWithTheSameBits) {
  const auto& [before, after] = GetParam();
  absl::StatusOr<Outcome> whole = Train(MakePlan(before), SmallOptions(4));
  ASSERT_TRUE(whole.ok()) << whole.status();

  TrainOptions first = SmallOptions(2);
  first.saving.directory = directory_.string();
  absl::StatusOr<Outcome> stopped = Train(MakePlan(before), first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  TrainOptions rest = SmallOptions(4);
  rest.saving.resume = directory_.string();
  absl::StatusOr<Outcome> resumed = Train(MakePlan(after), rest);
  ASSERT_TRUE(resumed.ok()) << resumed.status();

  EXPECT_EQ(resumed->weights_hash, whole->weights_hash);
  EXPECT_EQ(resumed->eval_loss, whole->eval_loss);
  EXPECT_EQ(resumed->losses,
            std::vector<std::string>(whole->losses.begin() + 2, whole->losses.end()));
}

INSTANTIATE_TEST_SUITE_P(Handovers, Resume, testing::ValuesIn(Handovers()), [](const auto& run) {
  return run.param.before.Name() + "_then_" + run.param.after.Name();
});

// Trains until the end, or one step after `stop_after`; adds each evaluation, step and loss.
void TrainEvaluated(const TrainOptions& options, int64_t stop_after,
                    std::vector<std::pair<int64_t, double>>* evaluations) {
  const RunPlan plan = MakePlan({.ranks = 2});
  const HashedData data(plan.request.spec, plan.request.batch.seq, plan.request.documents);
  std::atomic<bool> stop{false};
  TrainEvents events;
  events.on_step = [&](const StepMetrics& metrics) { stop = metrics.step == stop_after; };
  events.on_evaluation = [&](const Evaluation& evaluation) {
    evaluations->emplace_back(evaluation.step, evaluation.loss);
  };
  const absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, events, &stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->summary.interrupted, stop_after > 0);
}

// Whoever stops a run does not wait for the evaluation of its last step, which the next one makes.
TEST_F(CheckpointTest, AStoppedRunAndTheNextHaveEachEvaluationOnce) {
  TrainOptions options = SmallOptions(8);
  options.watching.eval_every = 2;
  std::vector<std::pair<int64_t, double>> whole;
  TrainEvaluated(options, -1, &whole);
  ASSERT_EQ(whole.size(), 4U);
  options.saving.directory = directory_.string();
  for (const int64_t save_every : {0, 2}) {
    options.saving.every = save_every;  // with 2, the last step is saved as any other
    for (const int64_t stop_after : {1, 2, 3}) {
      fs::remove_all(directory_);
      options.saving.resume = "";
      std::vector<std::pair<int64_t, double>> parts;
      TrainEvaluated(options, stop_after, &parts);
      EXPECT_EQ(parts.size(), stop_after == 1 ? 0U : 1U);
      options.saving.resume = directory_.string();
      TrainEvaluated(options, stop_after + 2, &parts);
      TrainEvaluated(options, -1, &parts);
      EXPECT_EQ(parts, whole) << save_every << " " << stop_after;
    }
  }
}

// A run that has ended has made its last evaluation.
TEST_F(CheckpointTest, ARunThatIsMadeLongerDoesNotEvaluateAgain) {
  TrainOptions options = SmallOptions(2);
  options.watching.eval_every = 2;
  options.saving.directory = directory_.string();
  std::vector<std::pair<int64_t, double>> evaluations;
  TrainEvaluated(options, -1, &evaluations);
  options.training.steps = 4;
  options.training.given.steps = 4;
  options.saving.resume = directory_.string();
  TrainEvaluated(options, -1, &evaluations);
  ASSERT_EQ(evaluations.size(), 2U);
  EXPECT_EQ(evaluations[1].first, 4);
}

TEST_F(CheckpointTest, RefusesARunThatWouldNotBeTheSame) {
  TrainOptions first = SmallOptions(1);
  first.saving.directory = directory_.string();
  ASSERT_TRUE(Train(MakePlan({}), first).ok());
  TrainOptions rest = SmallOptions(2);
  rest.saving.resume = directory_.string();

  rest.training.seed = 7;
  EXPECT_THAT(std::string(Train(MakePlan({}), rest).status().message()),
              testing::HasSubstr("the seed"));
  rest.training.seed = first.training.seed;
  EXPECT_THAT(std::string(Train(MakePlan({.micro_batches = 5}), rest).status().message()),
              testing::HasSubstr("number of micro-batches (saved 4, given 5)"));
  EXPECT_THAT(std::string(Train(MakePlan({.dtype = DType::kBFloat16}), rest).status().message()),
              testing::HasSubstr("compute type"));
  EXPECT_THAT(std::string(Train(MakePlan({.model = "tied"}), rest).status().message()),
              testing::HasSubstr("the model's shape"));
  EXPECT_THAT(std::string(Train(MakePlan({.model = "rms"}), rest).status().message()),
              testing::AllOf(testing::HasSubstr("norms, --norm (saved layer, given rms)"),
                             testing::Not(testing::HasSubstr("shape"))));
  EXPECT_THAT(std::string(Train(MakePlan({.adapted = "lora"}), rest).status().message()),
              testing::HasSubstr("--lora and --freeze (saved everything, given lora r=3,alpha=6,"));
}

// The same tensors, used in another way.
TEST_F(CheckpointTest, AnAdapterOfAnotherScaleIsAnotherRun) {
  TrainOptions first = SmallOptions(1);
  first.saving.directory = directory_.string();
  RunRequest request = MakeRequest({.adapted = "lora"});
  ASSERT_TRUE(Train(*CompileRun(request), first).ok());
  TrainOptions rest = SmallOptions(2);
  rest.saving.resume = directory_.string();
  request.adaptation.lora->alpha = 7;
  EXPECT_THAT(std::string(Train(*CompileRun(request), rest).status().message()),
              testing::HasSubstr("alpha=6,rslora=0,targets=all-linear, given lora r=3,alpha=7"));
  request.adaptation.lora->alpha = 6;
  EXPECT_TRUE(Train(*CompileRun(request), rest).ok());
}

// A folder's link may lead elsewhere as soon as the weights have been read: whoever trains there
// goes on.
TEST_F(CheckpointTest, AnAdapterIsOfTheWeightsThatWereRead) {
  const fs::path base = directory_ / "base";
  TrainOptions whole = SmallOptions(1);
  whole.saving.directory = base.string();
  ASSERT_TRUE(Train(MakePlan({}), whole).ok());
  TrainOptions options = SmallOptions(2);
  options.saving.init = (base / "latest").string();
  options.saving.directory = (directory_ / "adapter").string();
  options.saving.every = 1;
  options.saving.saves_adapter = true;
  const RunPlan plan = MakePlan({.adapted = "lora"});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainEvents events;
  events.on_step = [&](const StepMetrics& metrics) {
    if (metrics.step != 1) return;
    fs::create_directory(base / "step-00000002");
    fs::remove(base / "latest");
    fs::create_directory_symlink("step-00000002", base / "latest");
  };
  ASSERT_TRUE(TrainInProcess(plan, data, options, events, nullptr).ok());
  const absl::StatusOr<LoadedCheckpoint> saved = OpenCheckpoint(options.saving.directory);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->state.step, 2);
  EXPECT_EQ(saved->state.base, fs::canonical(base / "step-00000001").string());
}

// Numbers are compared, not how an older version wrote them.
TEST_F(CheckpointTest, AnAdaptersNumbersMayBeWrittenInMoreDigits) {
  TrainOptions first = SmallOptions(1);
  first.saving.directory = directory_.string();
  RunRequest request = MakeRequest({.adapted = "lora"});
  request.adaptation.lora->alpha = 0.1;
  ASSERT_TRUE(Train(*CompileRun(request), first).ok());
  Forge((directory_ / "latest").string(), "state.json", "alpha=0.1,", "alpha=0.10000000000000001,");
  TrainOptions rest = SmallOptions(2);
  rest.saving.resume = directory_.string();
  const absl::StatusOr<Outcome> resumed = Train(*CompileRun(request), rest);
  EXPECT_TRUE(resumed.ok()) << resumed.status();
}

class NamedData : public HashedData {
 public:
  NamedData(const RunPlan& plan, std::string fingerprint)
      : HashedData(plan.request.spec, plan.request.batch.seq),
        fingerprint_(std::move(fingerprint)) {}

 protected:
  std::string MakeFingerprint() const override { return fingerprint_; }

 private:
  const std::string fingerprint_;
};

// Those of documents once did not say where these end.
TEST_F(CheckpointTest, OlderFingerprintsOfDocumentsAreKnown) {
  TrainOptions options = SmallOptions(1);
  options.saving.directory = directory_.string();
  const auto plan = CompileRun(MakeRequest({}));
  ASSERT_TRUE(Train(*plan, options).ok());
  std::string in_file = "hashed";
  const auto resumes = [&](const std::string& saved, const std::string& given) {
    Forge((directory_ / "latest").string(), "state.json",
          absl::StrCat("\"data_fingerprint\": \"", in_file, "\""),
          absl::StrCat("\"data_fingerprint\": \"", saved, "\""));
    in_file = saved;
    return OpenResumePoint(directory_.string(), *plan, options, NamedData(*plan, given)).ok();
  };
  const std::string old = "documents:2:1:0:0:00000000000000ff";
  EXPECT_TRUE(resumes(old, old + ":0123456789abcdef"));
  EXPECT_TRUE(resumes(old + ":0123456789abcdef", old + ":0123456789abcdef"));
  EXPECT_FALSE(resumes(old + ":0123456789abcdef", old + ":0123456789abcdee"));
  EXPECT_FALSE(resumes(old, "documents:2:1:0:0:00000000000000fe:0123456789abcdef"));
  EXPECT_FALSE(resumes("documents:2:1:0:0", old + ":0123456789abcdef"));
  EXPECT_FALSE(resumes("text:10", "text:10:00ff"));
}

// They would be other weights.
TEST_F(CheckpointTest, FrozenWeightsKeepTheirType) {
  TrainOptions first = SmallOptions(1);
  first.saving.directory = directory_.string();
  RunRequest request = MakeRequest({.dtype = DType::kBFloat16, .adapted = "freeze"});
  ASSERT_TRUE(Train(*CompileRun(request), first).ok());
  TrainOptions rest = SmallOptions(2);
  rest.saving.resume = directory_.string();
  request.adaptation.base_dtype = DType::kFloat32;
  EXPECT_THAT(std::string(Train(*CompileRun(request), rest).status().message()),
              testing::HasSubstr("*wpe.weight; base bf16, given freeze "));
}

// Weights in many files, and the files of the model's folder: the run goes on from them, and hands
// the folder's files on to its own checkpoints.
TEST_F(CheckpointTest, ShardsAndTheModelsFilesAreHandedOn) {
  const auto bytes_of = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const SmallRun before{.replicas = 2, .zero = 2};
  const absl::StatusOr<Outcome> whole = Train(MakePlan(before), SmallOptions(4));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string config = FormatModelConfig(SmallModel("gpt")) + "\n\n";
  TrainOptions first = SmallOptions(2);
  first.saving.directory = directory_.string();
  first.saving.shard_bytes = 20'000;
  first.saving.model_files = std::make_shared<const ModelFiles>(ModelFiles{
      .origin = "/models/tiny", .texts = {{"config.json", config}, {"tokenizer.json", "{ }"}}});
  ASSERT_TRUE(Train(MakePlan(before), first).ok());
  ASSERT_TRUE(fs::exists(directory_ / "latest/model.safetensors.index.json"));
  ASSERT_FALSE(fs::exists(directory_ / "latest/model.safetensors"));

  TrainOptions rest = SmallOptions(4);
  rest.saving.resume = directory_.string();
  rest.saving.directory = (directory_ / "rest").string();
  const absl::StatusOr<Outcome> resumed = Train(MakePlan(before), rest);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->weights_hash, whole->weights_hash);
  const fs::path last = directory_ / "rest/latest";
  EXPECT_TRUE(fs::exists(last / "model.safetensors"));
  EXPECT_EQ(bytes_of(last / "config.json"), config);
  EXPECT_EQ(bytes_of(last / "tokenizer.json"), "{ }");
  EXPECT_THAT(bytes_of(last / "state.json"),
              testing::HasSubstr("\"model_files_from\": \"/models/tiny\""));

  // From shards or from one file: the same weights.
  for (const fs::path& init : {directory_ / "latest", last}) {
    TrainOptions start = SmallOptions(0);
    start.saving.init = init.string();
    const absl::StatusOr<Outcome> started = Train(MakePlan({.ranks = 1}), start);
    ASSERT_TRUE(started.ok()) << started.status();
    if (init == last) {
      EXPECT_EQ(started->weights_hash, whole->weights_hash);
    }
  }
}

// The messages of a run about the checkpoint that it resumes from.
ResumedRun ResumedBy(const RunPlan& plan, const TrainOptions& options) {
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  ResumedRun said;
  TrainEvents events;
  events.on_resume = [&said](const ResumedRun& run) { said = run; };
  const absl::Status status = TrainInProcess(plan, data, options, events, nullptr).status();
  EXPECT_TRUE(status.ok()) << status;
  return said;
}

TEST_F(CheckpointTest, HyperParametersThatWereForgottenAreTheCheckpoints) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    const RunPlan plan = MakePlan({.optimizer = kind});
    TrainOptions whole = SmallOptions(4);
    whole.training.optimizer = {.lr = 0.02,
                                .weight_decay = 0.3,
                                .clip = 0.25,
                                .beta1 = 0.8,
                                .beta2 = 0.9,
                                .momentum = 0.6,
                                .warmup = 3,
                                .schedule = LrSchedule::kCosine,
                                .final_lr_fraction = 0.3};
    whole.saving.directory = directory_;
    whole.saving.every = 2;
    const absl::StatusOr<Outcome> unbroken = Train(plan, whole);
    ASSERT_TRUE(unbroken.ok()) << unbroken.status();
    TrainOptions rest;  // sets no hyper-parameter
    rest.running.pin_threads = false;
    rest.saving.resume = directory_ / "step-00000002";
    const absl::StatusOr<Outcome> resumed = Train(plan, rest);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->weights_hash, unbroken->weights_hash);
    EXPECT_EQ(resumed->losses.size(), 2U);
    const ResumedRun said = ResumedBy(plan, rest);
    EXPECT_EQ(said.step, 2);
    EXPECT_EQ(said.steps, 4);
    EXPECT_THAT(said.differences, testing::IsEmpty());
  }
}

TEST_F(CheckpointTest, HyperParametersThatWereGivenAreUsedAndSaid) {
  const RunPlan plan = MakePlan({});
  TrainOptions first = SmallOptions(2);
  first.saving.directory = directory_;
  ASSERT_TRUE(Train(plan, first).ok());
  TrainOptions rest = SmallOptions(4);
  rest.saving.resume = directory_;
  const absl::StatusOr<Outcome> same = Train(plan, rest);
  rest.training.given.lr = rest.training.optimizer.lr = 0.5;
  const absl::StatusOr<Outcome> other = Train(plan, rest);
  ASSERT_TRUE(same.ok() && other.ok());
  EXPECT_NE(other->weights_hash, same->weights_hash);
  EXPECT_THAT(ResumedBy(plan, rest).differences,
              testing::ElementsAre("lr 0.01 in the checkpoint, 0.5 given: going on with 0.5"));
}

TEST_F(CheckpointTest, RunsWithAndWithoutAFlushAreOtherRuns) {
  TrainOptions first = SmallOptions(1);
  first.saving.directory = directory_;
  TrainOptions rest = SmallOptions(2);
  rest.saving.resume = directory_;
  const SmallRun flush;
  const SmallRun none{.schedule = "pipedream"};
  ASSERT_TRUE(Train(MakePlan(flush), first).ok());
  EXPECT_THAT(std::string(Train(MakePlan(none), rest).status().message()),
              testing::HasSubstr("when weights are updated, --schedule (saved at a flush, as 1f1b, "
                                 "given without a flush, as pipedream)"));
  fs::remove_all(directory_);
  ASSERT_TRUE(Train(MakePlan(none), first).ok());
  EXPECT_THAT(std::string(Train(MakePlan(flush), rest).status().message()),
              testing::HasSubstr("(saved without a flush, as pipedream, given at a flush"));
  EXPECT_THAT(std::string(Train(MakePlan({.schedule = "pipedream-2bw"}), rest).status().message()),
              testing::HasSubstr("as pipedream, given without a flush, as pipedream-2bw)"));
  EXPECT_THAT(ResumedBy(MakePlan(none), rest).differences, testing::IsEmpty());
  // Staleness depends on the stages.
  EXPECT_THAT(ResumedBy(MakePlan({.schedule = "pipedream", .ranks = 3}), rest).differences,
              testing::ElementsAre(testing::StartsWith("partition 0-")));
}

TEST_F(CheckpointTest, RunsThatSumInAnotherOrderAreOtherRuns) {
  const SmallRun run{.schedule = "gpipe"};
  Timetable descending = MakeRequest(run).timetable;
  for (auto& row : descending.rows) {
    for (Action& action : row) {
      if (action.op == Op::kBackward)
        action.micro_batch = descending.micro_batches - 1 - action.micro_batch;
    }
  }
  const RunPlan other = *CompileRun(MakeRequest(run, descending));
  TrainOptions first = SmallOptions(1);
  first.saving.directory = directory_;
  TrainOptions rest = SmallOptions(2);
  rest.saving.resume = directory_;
  ASSERT_TRUE(Train(other, first).ok());
  EXPECT_THAT(std::string(Train(MakePlan(run), rest).status().message()),
              testing::HasSubstr("the order in which they are summed, --schedule (saved "
                                 "descending, given ascending)"));
  EXPECT_TRUE(Train(other, rest).ok());
}

}  // namespace
}  // namespace sluice
