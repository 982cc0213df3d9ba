// Several documents in one sample: as if each had a sample of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

}  // namespace
}  // namespace sluice
