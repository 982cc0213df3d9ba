// Several documents in one sample: as if each had a sample of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedules/generators/catalogue.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

constexpr int64_t kSeq = 6;
// Tokens of each document; two fit into a sample.
constexpr int64_t kFirst = 4, kSecond = kSeq - kFirst;

int32_t TokenAt(int64_t document, int64_t at) {
  return static_cast<int32_t>((document * 7 + at * 5 + at * at) % 17);
}

// Documents 2k and 2k + 1 in sample k; or, alone, each in a sample of its own with padding behind.
class Documents : public Dataset {
 public:
  explicit Documents(bool alone) : alone_(alone) {}
  std::string description() const override { return "documents"; }
  int64_t samples(Split split) const override { return split == Split::kTrain ? 1000 : 0; }
  int classes() const override { return 17; }
  int64_t input_size() const override { return kSeq; }
  DType input_dtype() const override { return DType::kInt32; }
  bool has_documents() const override { return true; }

  void Fill(Split, int64_t index, int64_t size, DType, const SampleBuffers& out) const override {
    for (int64_t i = 0; i < size; ++i) {
      const int64_t sample = index * size + i;
      const int64_t first = alone_ ? sample : 2 * sample;
      const int64_t border = first % 2 == 0 ? kFirst : kSecond;
      for (int64_t j = 0; j < kSeq; ++j) {
        const bool behind = j >= border;
        const int64_t document = first + (behind ? 1 : 0), at = behind ? j - border : j;
        const bool padding = alone_ && behind;
        const bool is_last = j + 1 == border || j + 1 == kSeq;
        const size_t row = static_cast<size_t>(i * kSeq + j);
        if (out.input != nullptr) {
          static_cast<int32_t*>(out.input)[row] = padding ? 0 : TokenAt(document, at);
        }
        if (out.targets != nullptr)
          out.targets[row] = padding || is_last ? kNoTarget : TokenAt(document, at + 1);
        if (out.starts != nullptr) out.starts[row] = static_cast<int32_t>(behind ? border : 0);
      }
    }
  }
  int64_t counted_targets(Split, int64_t, int64_t size) const override {
    return alone_ ? size / 2 * (kSeq - 2) : size * (kSeq - 2);
  }

 private:
  bool alone_;
};

struct Step {
  double loss = 0, norm = 0;
};

std::vector<Step> TrainOn(const Dataset& data, SmallRun run, int64_t batch) {
  run.documents = true;
  RunRequest request = MakeRequest(run);
  request.batch.size = batch;
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<Step> steps;
  TrainEvents events;
  events.on_step = [&steps](const StepMetrics& metrics) {
    steps.push_back({metrics.loss, metrics.grad_norm});
  };
  const absl::StatusOr<TrainResult> result =
      TrainInProcess(*plan, data, SmallOptions(4), events, nullptr);
  EXPECT_TRUE(result.ok()) << result.status();
  return steps;
}

class DocumentsOf : public testing::TestWithParam<const char*> {};

TEST_P(DocumentsOf, OneSampleTrainAsInSamplesOfTheirOwn) {
  const SmallRun run{.model = GetParam(), .ranks = 3};
  const std::vector<Step> together = TrainOn(Documents(/*alone=*/false), run, 1);
  const std::vector<Step> alone = TrainOn(Documents(/*alone=*/true), run, 2);
  ASSERT_EQ(together.size(), 4U);
  ASSERT_EQ(alone.size(), together.size());
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_NEAR(together[i].loss, alone[i].loss, 1e-5 * together[i].loss) << "step " << i;
    EXPECT_NEAR(together[i].norm, alone[i].norm, 1e-4 * together[i].norm) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DocumentsOf,
                         testing::Values("gpt", "tied", "llama", "qwen3", "gemma2", "gemma3"));

// The borders matter: with those of another micro-batch, on any rank, the weights become others.
class Borders : public testing::TestWithParam<int> {};

TEST_P(Borders, OfAnotherMicroBatchAreSeen) {
  RunPlan plan = MakePlan({.model = "llama", .ranks = 3, .documents = true});
  const absl::StatusOr<Outcome> sound = Train(plan, SmallOptions(2));
  ASSERT_TRUE(sound.ok()) << sound.status();
  for (Instruction& i : plan.train[static_cast<size_t>(GetParam())].instructions) {
    if (i.step == sluice::Step::kLoadStarts && i.micro_batch == 2) i.micro_batch = 0;
  }
  const absl::StatusOr<Outcome> mutated = Train(plan, SmallOptions(2));
  ASSERT_TRUE(mutated.ok()) << mutated.status();
  EXPECT_NE(mutated->weights_hash, sound->weights_hash);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Borders, testing::Range(0, 3));

// A stage of an MLP, or a head alone, reads no borders, and data without documents none at all.
TEST(Borders, AreLoadedOnlyWhereTheyAreRead) {
  const auto loads = [](const RankProgram& program) {
    int count = 0;
    for (const Instruction& i : program.instructions)
      count += i.step == sluice::Step::kLoadStarts ? 1 : 0;
    return count;
  };
  RunRequest request = MakeRequest({.model = "llama", .ranks = 2, .documents = true});
  const int layers = request.spec.layer_count();
  request.partition = {{0, layers - 2}, {layers - 1, layers - 1}};
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(loads(plan->train[0]), 4);
  EXPECT_EQ(loads(plan->train[1]), 0);
  EXPECT_EQ(loads(MakePlan({.model = "llama", .ranks = 2}).train[0]), 0);
}

// Step 2 without a target that counts; and the validation data, where `validation` says so.
class Silent : public HashedData {
 public:
  Silent(const RunPlan& plan, bool validation)
      : HashedData(plan.request.spec, plan.request.batch.seq, /*documents=*/true),
        step_(plan.global_micro_batches()),
        validation_(validation) {}
  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override {
    HashedData::Fill(split, index, size, dtype, out);
    const int64_t per_sample = input_dtype() == DType::kInt32 ? input_size() : 1;
    if (out.targets != nullptr && IsSilent(split, index))
      std::fill_n(out.targets, size * per_sample, kNoTarget);
  }
  int64_t counted_targets(Split split, int64_t index, int64_t size) const override {
    return IsSilent(split, index) ? 0 : HashedData::counted_targets(split, index, size);
  }

 private:
  bool IsSilent(Split split, int64_t index) const {
    return split == Split::kTrain ? index / step_ == 1 : validation_;
  }

  int64_t step_;
  bool validation_;
};

// Plain descent: weights move by nothing but a step's gradients.
TrainOptions PlainDescent(int64_t steps) {
  TrainOptions options = SmallOptions(steps);
  options.training.optimizer.momentum = 0;
  options.training.optimizer.weight_decay = 0;
  return options;
}

struct SilentRun {
  std::vector<Step> steps;
  uint64_t weights_hash = 0;
};

SilentRun TrainSilent(const RunRequest& request, int64_t steps) {
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  SilentRun run;
  TrainEvents events;
  events.on_step = [&run](const StepMetrics& metrics) {
    run.steps.push_back({metrics.loss, metrics.grad_norm});
  };
  const absl::StatusOr<TrainResult> result = TrainInProcess(
      *plan, Silent(*plan, /*validation=*/false), PlainDescent(steps), events, nullptr);
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) run.weights_hash = result->summary.weights_hash;
  return run;
}

SmallRun OfSilence(SmallRun run) {
  run.optimizer = OptimizerKind::kSgd;
  run.documents = true;
  return run;
}

// The head's tensors of the step before are still in memory when nothing is learnt from the next.
class StepsWithoutTargets : public testing::TestWithParam<SmallRun> {};

TEST_P(StepsWithoutTargets, ChangeNoWeights) {
  const RunRequest request = MakeRequest(GetParam());
  const SilentRun before = TrainSilent(request, 1);
  const SilentRun with = TrainSilent(request, 2);
  ASSERT_EQ(with.steps.size(), 2U);
  EXPECT_GT(with.steps[0].norm, 0);
  EXPECT_EQ(with.steps[1].loss, 0);
  EXPECT_EQ(with.steps[1].norm, 0);
  EXPECT_EQ(with.weights_hash, before.weights_hash);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, StepsWithoutTargets,
    testing::Values(OfSilence({.ranks = 3}), OfSilence({.schedule = "zb-h1", .head_rows = 1}),
                    OfSilence({.model = "tied", .recompute = Recompute::kFull, .head_rows = 1}),
                    OfSilence({.model = "gemma2", .dtype = DType::kBFloat16}),
                    OfSilence({.model = "mlp"}), OfSilence({.adapted = "lora"}),
                    OfSilence({.audit_every = 1}),
                    OfSilence({.model = "wide", .ranks = 1, .replicas = 2, .zero = 1}),
                    OfSilence({.micro_batches = 6, .stage_members = {2, 1}})),
    [](const auto& run) { return run.param.Name(); });

// Without a flush each micro-batch, or each group of some, is an update.
TEST(UpdatesWithoutTargets, ChangeNoWeights) {
  for (const char* schedule : {"pipedream", "pipedream-2bw"}) {
    const SmallRun run = OfSilence({.schedule = schedule, .ranks = 3});
    const auto of_steps = [&run](int steps) {
      const absl::StatusOr<Timetable> table =
          GenerateSchedule(run.schedule, {.ranks = run.ranks,
                                          .micro_batches = steps * run.micro_batches,
                                          .update_every = run.micro_batches});
      EXPECT_TRUE(table.ok()) << table.status();
      RunRequest request = MakeRequest(run, *table);
      request.step_micro_batches = run.micro_batches;
      return TrainSilent(request, steps);
    };
    const SilentRun with = of_steps(2);
    ASSERT_EQ(with.steps.size(), 2U);
    EXPECT_GT(with.steps[0].norm, 0) << schedule;
    EXPECT_EQ(with.steps[1].norm, 0) << schedule;
    EXPECT_EQ(with.weights_hash, of_steps(1).weights_hash) << schedule;
  }
}

// A loss of 0 would be a perfect one.
TEST(ValidationWithoutTargets, IsNotEvaluated) {
  const RunPlan plan = MakePlan({.documents = true});
  for (const bool silent : {false, true}) {
    int evaluations = 0;
    TrainEvents events;
    events.on_evaluation = [&evaluations](const Evaluation&) { ++evaluations; };
    const absl::StatusOr<TrainResult> result =
        TrainInProcess(plan, Silent(plan, silent), SmallOptions(1), events, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->summary.evaluated, !silent);
    EXPECT_EQ(evaluations, silent ? 0 : 1);
  }
}

// As many samples to evaluate with as it says.
class FewToEvaluate : public HashedData {
 public:
  FewToEvaluate(const RunPlan& plan, int64_t samples)
      : HashedData(plan.request.spec, plan.request.batch.seq, plan.request.documents),
        samples_(samples) {}
  int64_t samples(Split split) const override {
    return split == Split::kTrain ? HashedData::samples(split) : samples_;
  }

 private:
  int64_t samples_;
};

// Of the weights as they are made, with micro-batches of `size` samples.
TrainSummary EvaluateWith(const SmallRun& run, int64_t size, int64_t samples) {
  RunRequest request = MakeRequest(run);
  request.batch.size = size;
  const absl::StatusOr<RunPlan> plan = CompileRun(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  TrainOptions options = PlainDescent(1);
  options.training.optimizer.lr = 0;
  const absl::StatusOr<TrainResult> result =
      TrainInProcess(*plan, FewToEvaluate(*plan, samples), options, {}, nullptr);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->summary : TrainSummary();
}

class Evaluation1To7 : public testing::TestWithParam<SmallRun> {};

// Also where the samples are fewer than a micro-batch has.
TEST_P(Evaluation1To7, CountsEverySampleWhateverTheSizeOfMicroBatches) {
  for (int64_t samples = 1; samples <= 7; ++samples) {
    const TrainSummary expected = EvaluateWith(GetParam(), 1, samples);
    ASSERT_TRUE(expected.evaluated);
    EXPECT_EQ(expected.eval_samples, samples);
    for (const int64_t size : {2, 3, 8}) {
      const TrainSummary summary = EvaluateWith(GetParam(), size, samples);
      EXPECT_EQ(summary.eval_samples, samples) << size;
      EXPECT_NEAR(summary.eval_loss, expected.eval_loss, 1e-5) << samples << " by " << size;
      EXPECT_NEAR(summary.accuracy, expected.accuracy, 1e-9) << samples << " by " << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Evaluation1To7,
                         testing::Values(SmallRun{.ranks = 2},
                                         SmallRun{.model = "llama", .ranks = 2, .documents = true},
                                         SmallRun{.model = "mlp", .ranks = 3},
                                         SmallRun{.model = "wide", .ranks = 1, .replicas = 2}),
                         [](const auto& run) { return run.param.Name(); });

}  // namespace
}  // namespace sluice
