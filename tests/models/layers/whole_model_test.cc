#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/models/layers/test_models.h"
#include "tests/models/twins/model_runner.h"
#include "tests/models/twins/reference_kernels.h"

namespace sluice {
namespace {

constexpr int kMicroBatches = 2;

// A model of the size that the CPU's kernels block for: several tiles in every dimension, and none
// a multiple of one.
TestModel MediumGpt() {
  const DecoderConfig config{
      .layers = 2, .dim = 72, .heads = 3, .vocab = 101, .max_seq = 70, .tied_head = true};
  return {"gpt_medium", {"gpt_medium", config}, {1, 67}};
}

std::vector<TestModel> Models() {
  std::vector<TestModel> models = TestModels();
  models.push_back(MediumGpt());
  return models;
}

class WholeModelTest : public testing::TestWithParam<TestCase> {
 protected:
  const TestModel& model() const { return GetParam().model; }
  DType dtype() const { return GetParam().dtype; }

  ModelRunner Runner(const Kernels& kernels) const {
    ModelRunner runner(model().spec, model().batch, dtype(), kernels, 1);
    for (LayerRunner& layer : runner.layers()) {
      for (const ParameterDecl& decl : layer.decl().parameters) {
        LivelyParameter(decl, runner.parameter(decl.name).data());
      }
    }
    runner.Pack();
    return runner;
  }
  std::vector<MicroBatch> Data() const {
    return RandomMicroBatches(model().spec, model().batch, dtype(), kMicroBatches, 3);
  }
};

double Norm(const std::vector<float>& values) {
  double squares = 0;
  for (float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

// |a - b| / |b|, over all elements.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double size = Norm(b);
  return size == 0 ? Norm(difference) : Norm(difference) / size;
}

// Unit round-off times the depth of sums and layers that errors pass through; bf16 keeps 8 bits,
// fp32 24.
double Tolerance(DType dtype) { return dtype == DType::kBFloat16 ? 0.05 : 2e-5; }

TEST_P(WholeModelTest, CpuGivesWhatPlainKernelsGive) {
  const std::vector<MicroBatch> data = Data();
  const StepResult cpu = Runner(CpuKernels()).Step(data);
  const StepResult plain = Runner(ReferenceKernels()).Step(data);
  for (int m = 0; m < kMicroBatches; ++m) {
    EXPECT_NEAR(cpu.losses[m] / plain.losses[m], 1, Tolerance(dtype()));
  }
  ASSERT_EQ(cpu.gradients.size(), plain.gradients.size());
  for (const auto& [name, gradient] : plain.gradients) {
    EXPECT_LT(RelativeDistance(cpu.gradients.at(name), gradient), Tolerance(dtype())) << name;
    EXPECT_GT(Norm(gradient), 0) << name;
  }
}

TEST_P(WholeModelTest, LogitsAreThoseBehindTheLoss) {
  const std::vector<MicroBatch> data = Data();
  ModelRunner cpu = Runner(CpuKernels());
  const std::vector<float> logits = cpu.Logits(data[0]);
  EXPECT_LT(RelativeDistance(logits, Runner(ReferenceKernels()).Logits(data[0])),
            Tolerance(dtype()));
  const size_t rows = data[0].targets.size(), classes = logits.size() / rows;
  double loss = 0;
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(double{logits[r * classes + c]});
    loss += std::log(sum) - logits[r * classes + data[0].targets[r]];
  }
  EXPECT_NEAR(cpu.Loss({data[0]}) / loss, 1, 1e-6);
}

// A fresh model knows nothing: its loss is that of guessing, log(classes) a row.
TEST(FreshModelTest, AGptGuesses) {
  const TestModel model = MediumGpt();
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    ModelRunner runner(model.spec, model.batch, dtype, CpuKernels(), 1);
    const auto data = RandomMicroBatches(model.spec, model.batch, dtype, kMicroBatches, 3);
    const double rows = static_cast<double>(model.batch.rows() * kMicroBatches);
    EXPECT_NEAR(runner.Loss(data) / rows, std::log(model.spec.classes()), 0.05);
  }
}

// Descent along the gradient lowers the loss by about |gradient|^2 a unit of learning rate.
class DescentTest : public WholeModelTest {};  // fp32: bf16 rounds so small a step away

TEST_P(DescentTest, AStepDownTheGradientLowersTheLossAsMuchAsItSays) {
  ModelRunner runner = Runner(CpuKernels());
  const std::vector<MicroBatch> data = Data();
  const StepResult before = runner.Step(data);
  double squares = 0;
  for (const auto& [name, gradient] : before.gradients) squares += std::pow(Norm(gradient), 2);
  const double rate = 2e-3 / squares;
  for (const auto& [name, gradient] : before.gradients) {
    const absl::Span<float> values = runner.parameter(name);
    for (size_t i = 0; i < gradient.size(); ++i) {
      values[i] -= static_cast<float>(rate * gradient[i]);
    }
  }
  runner.Pack();
  const double rows = static_cast<double>(model().batch.rows() * kMicroBatches);
  const double sum = before.losses[0] + before.losses[1];
  EXPECT_NEAR((sum - runner.Loss(data)) / rows / (rate * squares), 1, 0.1);
}

std::vector<TestCase> Fp32Cases() {
  std::vector<TestCase> cases;
  for (const TestModel& model : Models()) cases.push_back({model, DType::kFloat32, &CpuKernels()});
  return cases;
}

const auto kName = [](const auto& test) { return test.param.name(); };
INSTANTIATE_TEST_SUITE_P(Models, WholeModelTest,
                         testing::ValuesIn(TestCases(Models(), {&CpuKernels()})), kName);
INSTANTIATE_TEST_SUITE_P(Models, DescentTest, testing::ValuesIn(Fp32Cases()), kName);

}  // namespace
}  // namespace sluice
