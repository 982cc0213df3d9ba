// Asynchronous schedules train by their rule: a naive twin, which is one loop over micro-batches
// and keeps every version of every stage's weights, gets the same bits.
#include "pipeline/state/asynchronous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <thread>

#include "schedules/generators/catalogue.h"
#include "schedules/weight_versions.h"
#include "tests/models/twins/model_runner.h"
#include "tests/pipeline/small_run.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

constexpr int64_t kSteps = 4;

// `steps` steps of `run` without a flush.
RunRequest Asynchronous(const SmallRun& run, int64_t steps) {
  ScheduleRequest schedule{.ranks = run.ranks,
                           .micro_batches = static_cast<int>(steps) * run.micro_batches};
  schedule.update_every = run.micro_batches;
  const absl::StatusOr<Timetable> table = GenerateSchedule(run.schedule, schedule);
  EXPECT_TRUE(table.ok()) << table.status();
  RunRequest request = MakeRequest(run, *table);
  request.step_micro_batches = run.micro_batches;
  return request;
}

// One stage of the twin: all versions of its weights, whole, and the state of its optimizer.
class TwinStage {
 public:
  TwinStage(ModelRunner& runner, LayerRange layers, uint64_t seed) {
    for (int l = layers.first; l <= layers.last; ++l) {
      for (const ParameterDecl& decl : runner.layers()[static_cast<size_t>(l)].decl().parameters) {
        decls_.push_back(decl);
        ParameterDecl whole = decl;
        whole.dtype = DType::kFloat32;
        const auto elements = static_cast<size_t>(ElementCount(decl.shape));
        newest_.emplace_back(elements);
        InitializeParameter(whole, seed, newest_.back().data());
        moment1_.emplace_back(elements);
        moment2_.emplace_back(elements);
      }
    }
    versions_.push_back(newest_);
  }

  void Load(ModelRunner& runner, size_t version) const {
    for (size_t p = 0; p < decls_.size(); ++p)
      runner.SetParameter(decls_[p].name, versions_[version][p]);
  }

  void Update(const StepResult& result, const RunRequest& request, const OptimizerOptions& options,
              double lr) {
    double squares = 0;
    for (const ParameterDecl& decl : decls_) {
      const std::vector<float>& gradient = result.gradients.at(decl.name);
      double of_gradient = 0;  // one block: these models are small
      EXPECT_LE(gradient.size(), static_cast<size_t>(kSquaresBlock));
      const SquaredTensor tensor = {static_cast<int64_t>(gradient.size()), gradient.data(),
                                    &of_gradient};
      CpuKernels().block_squares({}, {&tensor, 1});
      squares += of_gradient;
    }
    const double norm = std::sqrt(squares);
    const auto scale = static_cast<float>(norm > options.clip ? options.clip / norm : 1.0);
    for (size_t p = 0; p < decls_.size(); ++p)
      Update(p, result.gradients.at(decls_[p].name), request, options, lr, scale);
    versions_.push_back(newest_);
  }

  void AppendWeights(std::vector<float>* all) const {
    for (const std::vector<float>& weight : newest_)
      all->insert(all->end(), weight.begin(), weight.end());
  }

 private:
  void Update(size_t p, const std::vector<float>& gradient, const RunRequest& request,
              const OptimizerOptions& options, double lr, float scale) {
    const OptimizerTensor tensor = {
        .n = static_cast<int64_t>(gradient.size()),
        .weight = newest_[p].data(),
        .gradient = gradient.data(),
        .moment1 = moment1_[p].data(),
        .moment2 = moment2_[p].data(),
        .weight_decay = static_cast<float>(decls_[p].decay ? options.weight_decay : 0.0)};
    if (request.optimizer == OptimizerKind::kSgd) {
      CpuKernels().sgd({},
                       {.lr = static_cast<float>(lr),
                        .momentum = static_cast<float>(options.momentum),
                        .grad_scale = scale},
                       {&tensor, 1});
      return;
    }
    const AdamWStep step{.lr = static_cast<float>(lr),
                         .beta1 = static_cast<float>(options.beta1),
                         .beta2 = static_cast<float>(options.beta2),
                         .step = static_cast<int64_t>(versions_.size()),
                         .grad_scale = scale};
    CpuKernels().adamw({}, step, {&tensor, 1});
  }

  using Tensors = std::vector<std::vector<float>>;  // [parameter]
  std::vector<ParameterDecl> decls_;
  Tensors newest_;
  Tensors moment1_;
  Tensors moment2_;
  std::vector<Tensors> versions_;
};

struct TwinOutcome {
  std::vector<std::string> losses;
  uint64_t weights_hash = 0;
};

class Twin {
 public:
  Twin(const RunRequest& request, const TrainOptions& options)
      : request_(request),
        options_(options),
        runner_(request.spec, request.batch, request.dtype, *request.kernels,
                options.training.seed),
        data_(request.spec, request.batch.seq) {
    for (const LayerRange& layers : request.partition)
      stages_.emplace_back(runner_, layers, options.training.seed);
  }

  TwinOutcome Train() {
    const Timetable& table = request_.timetable;
    const bool each = table.updates == WeightUpdates::kEachMicroBatch;
    const int together = each ? 1 : table.update_every;
    TwinOutcome outcome;
    std::vector<double> losses;
    for (int first = 0; first < table.micro_batches; first += together) {
      for (size_t s = 0; s < stages_.size(); ++s)
        stages_[s].Load(runner_, static_cast<size_t>(Version(first, static_cast<int>(s), each)));
      runner_.Pack();
      const StepResult result = runner_.Step(MicroBatches(first, together));
      losses.insert(losses.end(), result.losses.begin(), result.losses.end());
      const int64_t step = first / request_.step_micro_batches + 1;
      const double lr = LearningRate(options_.training.optimizer, step, options_.training.steps);
      for (TwinStage& stage : stages_)
        stage.Update(result, request_, options_.training.optimizer, lr);
    }
    const auto step = static_cast<size_t>(request_.step_micro_batches);
    for (size_t at = 0; at < losses.size(); at += step) outcome.losses.push_back(Mean(losses, at));
    std::vector<float> weights;
    for (const TwinStage& stage : stages_) stage.AppendWeights(&weights);
    outcome.weights_hash = XXH3_64bits(weights.data(), weights.size() * sizeof(float));
    return outcome;
  }

 private:
  // PipeDream: the gradients of all micro-batches except the p - s - 1 before `mb` are applied.
  // 2BW: the weights of the group before the last one.
  int Version(int mb, int stage, bool each) const {
    const auto stages = static_cast<int>(stages_.size());
    if (each) return std::max(0, mb - (stages - 1 - stage));
    return std::max(0, mb / request_.timetable.update_every - 1);
  }

  std::vector<MicroBatch> MicroBatches(int first, int count) const {
    const BatchShape& batch = request_.batch;
    const bool tokens = request_.spec.decoder() != nullptr;
    const DType input = tokens ? DType::kInt32 : request_.dtype;
    std::vector<MicroBatch> micro_batches(static_cast<size_t>(count));
    for (int mb = 0; mb < count; ++mb) {
      MicroBatch& at = micro_batches[static_cast<size_t>(mb)];
      at.input.resize(static_cast<size_t>(batch.size * data_.input_size() * SizeOf(input)));
      at.targets.resize(static_cast<size_t>(batch.rows()));
      data_.Fill(Split::kTrain, first + mb, batch.size, input,
                 {.input = at.input.data(), .targets = at.targets.data()});
    }
    return micro_batches;
  }

  std::string Mean(const std::vector<double>& losses, size_t first) const {
    double sum = 0;
    for (int mb = 0; mb < request_.step_micro_batches; ++mb)
      sum += losses[first + static_cast<size_t>(mb)];
    const auto rows = static_cast<double>(request_.batch.rows() * request_.step_micro_batches);
    return LossHex(static_cast<float>(sum / rows));
  }

  const RunRequest& request_;
  const TrainOptions& options_;
  ModelRunner runner_;
  HashedData data_;
  std::vector<TwinStage> stages_;
};

class AsynchronousRun : public testing::TestWithParam<SmallRun> {};

TEST_P(AsynchronousRun, EqualsTheTwin) {
  const RunRequest request = Asynchronous(GetParam(), kSteps);
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const TrainOptions options = SmallOptions(kSteps);
  const absl::StatusOr<Outcome> outcome = Train(*plan, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const TwinOutcome twin = Twin(request, options).Train();
  EXPECT_EQ(outcome->losses, twin.losses);
  EXPECT_EQ(outcome->weights_hash, twin.weights_hash);
}

// The versions that the rule needs are a part of the arena.
TEST_P(AsynchronousRun, KeepsItsVersionsInItsArena) {
  const SmallRun& run = GetParam();
  const absl::StatusOr<RunPlan> plan = CompileRun(Asynchronous(run, kSteps));
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (int rank = 0; rank < run.ranks; ++rank) {
    const RankMemory& memory = plan->arenas[static_cast<size_t>(rank)].memory;
    EXPECT_EQ(memory.parameters + memory.gradients + memory.optimizer + memory.packed +
                  memory.stashed + memory.activations,
              memory.total);
    const int versions = run.schedule == "pipedream" ? run.ranks - rank : 2;
    EXPECT_EQ(memory.stashed, (versions - 1) * (memory.parameters + memory.packed)) << rank;
  }
}

std::vector<SmallRun> Runs() {
  std::vector<SmallRun> runs;
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      runs.push_back({.schedule = schedule, .ranks = ranks});
      runs.push_back({.model = "mlp",
                      .schedule = schedule,
                      .ranks = ranks,
                      .micro_batches = 5,
                      .partition_seed = 7,
                      .optimizer = OptimizerKind::kSgd});
    }
    runs.push_back({.schedule = schedule,
                    .ranks = 3,
                    .recompute = Recompute::kFull,
                    .dtype = DType::kBFloat16,
                    .partition_seed = 3});
    runs.push_back({.schedule = schedule,
                    .ranks = 3,
                    .dtype = DType::kBFloat16,
                    .master_weights = MasterWeights::kSplit});
    runs.push_back({.schedule = schedule, .recompute = Recompute::kFull, .recompute_ahead = true});
  }
  return runs;
}

INSTANTIATE_TEST_SUITE_P(Runs, AsynchronousRun, testing::ValuesIn(Runs()),
                         [](const auto& run) { return run.param.Name(); });

// If every micro-batch computed with the newest weights, the bits would differ.
TEST(Asynchronous, TheVersionsMatter) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    absl::StatusOr<RunPlan> plan =
        CompileRun(Asynchronous({.schedule = schedule, .ranks = 3}, kSteps));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::StatusOr<Outcome> sound = Train(*plan, SmallOptions(kSteps));
    for (CallBuffers& call : plan->train.front().calls) call.slot = 0;
    const absl::StatusOr<Outcome> wrong = Train(*plan, SmallOptions(kSteps));
    ASSERT_TRUE(sound.ok() && wrong.ok());
    EXPECT_NE(sound->weights_hash, wrong->weights_hash) << schedule;
  }
}

// Random delays of ranks change nothing.
class LateData : public HashedData {
 public:
  using HashedData::HashedData;
  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(500 * ((index * 7 + 3) % 5)));
    HashedData::Fill(split, index, size, dtype, out);
  }
};

TEST(Asynchronous, BitsDoNotDependOnTiming) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    const absl::StatusOr<RunPlan> plan =
        CompileRun(Asynchronous({.schedule = schedule, .ranks = 3}, kSteps));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::StatusOr<Outcome> outcome = Train(*plan, SmallOptions(kSteps));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const LateData late(plan->request.spec, plan->request.batch.seq);
    const absl::StatusOr<TrainResult> slow =
        TrainInProcess(*plan, late, SmallOptions(kSteps), {}, nullptr);
    ASSERT_TRUE(slow.ok()) << slow.status();
    EXPECT_EQ(slow->summary.weights_hash, outcome->weights_hash) << schedule;
  }
}

// With one stage nothing is stale: PipeDream is plain gradient descent, one micro-batch per step.
TEST(Asynchronous, OneStageIsPlainDescent) {
  const SmallRun run{.schedule = "pipedream", .ranks = 1};
  const absl::StatusOr<RunPlan> plan = CompileRun(Asynchronous(run, kSteps));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::StatusOr<Outcome> outcome = Train(*plan, SmallOptions(kSteps));
  const RunPlan plain = MakePlan({.schedule = "gpipe", .ranks = 1, .micro_batches = 1});
  const absl::StatusOr<Outcome> expected = Train(plain, SmallOptions(kSteps * run.micro_batches));
  ASSERT_TRUE(outcome.ok() && expected.ok());
  EXPECT_EQ(outcome->weights_hash, expected->weights_hash);
}

TEST(Asynchronous, ReportsHowStaleGradientsAre) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    const absl::StatusOr<RunPlan> plan =
        CompileRun(Asynchronous({.schedule = schedule, .ranks = 3}, kSteps));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const HashedData data(plan->request.spec, plan->request.batch.seq);
    std::vector<Staleness> steps;
    TrainEvents events;
    events.on_step = [&steps](const StepMetrics& metrics) {
      ASSERT_TRUE(metrics.staleness.has_value());
      steps.push_back(*metrics.staleness);
    };
    ASSERT_TRUE(TrainInProcess(*plan, data, SmallOptions(kSteps), events, nullptr).ok());
    ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
    // Stages are 2, 1 and 0 updates behind; or, with 2BW, each by one after the first step.
    const bool each = plan->lowered.updates == WeightUpdates::kEachMicroBatch;
    EXPECT_EQ(steps.back().max, each ? 2 : 1);
    EXPECT_DOUBLE_EQ(steps.back().mean, 1);
    EXPECT_LT(steps.front().mean, 1);
  }
}

// A run that is stopped after saving and then resumed has the bits of a run that saved and went on.
TEST(Asynchronous, ResumesAfterAFlush) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    const absl::StatusOr<RunPlan> plan =
        CompileRun(Asynchronous({.schedule = schedule, .ranks = 3}, 3));
    ASSERT_TRUE(plan.ok()) << plan.status();
    TrainOptions options = SmallOptions(8);
    options.saving.directory = testing::TempDir() + "/asynchronous_" + schedule;
    options.saving.every = 4;
    std::filesystem::remove_all(options.saving.directory);
    const absl::StatusOr<Outcome> whole = Train(*plan, options);
    ASSERT_TRUE(whole.ok()) << whole.status();
    options.saving.resume = options.saving.directory + "/step-00000004";
    const absl::StatusOr<Outcome> resumed = Train(*plan, options);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ(resumed->weights_hash, whole->weights_hash) << schedule;
    EXPECT_EQ(resumed->losses.size(), 4U);
    std::filesystem::remove_all(options.saving.directory);
  }
}

TEST(Asynchronous, RefusesWhatNeedsAFlush) {
  SmallRun tied{.model = "tied", .schedule = "pipedream", .ranks = 2};
  EXPECT_EQ(CompileRun(Asynchronous(tied, 2)).status().code(), absl::StatusCode::kInvalidArgument);
  SmallRun groups{.schedule = "pipedream", .ranks = 2};
  groups.sum_groups = 2;
  EXPECT_EQ(CompileRun(Asynchronous(groups, 2)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
