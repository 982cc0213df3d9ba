#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/models/layers/test_models.h"
#include "tests/models/twins/layer_runner.h"
#include "tests/models/twins/model_runner.h"
#include "tests/models/twins/reference_kernels.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

// Fourth-order central difference: truncation goes with the step's fourth power, so a step large
// enough to drown fp32's rounding still leaves five digits.
double CentralDifference(float& x, double step, const std::function<double()>& f) {
  const float old = x;
  const auto at = [&](double delta) {
    x = static_cast<float>(old + delta);
    return f();
  };
  const double near = at(step) - at(-step), far = at(2 * step) - at(-2 * step);
  x = old;
  return (8 * near - far) / (12 * step);
}

constexpr double kStep = 0x1p-6;     // a power of two: parameters take it almost exactly
constexpr double kTolerance = 5e-4;  // of 1 + |gradient|

void ExpectGradient(double analytic, double numeric, const std::string& what) {
  EXPECT_NEAR(analytic, numeric, kTolerance * (1 + std::abs(numeric))) << what;
}

// One layer alone, with random input and parameters. Its objective is the sum of its outputs, each
// times a fixed random number (that number is output_grad), or its loss.
class LayerAlone {
 public:
  LayerAlone(const TestModel& model, int index)
      : batch_(model.batch),
        runner_(MakeLayer(model.spec, index, model.batch, DType::kFloat32, ReferenceKernels(),
                          model.adaptation)
                    .value(),
                LivelyParameter),
        state_(runner_.decl()) {
    const LayerDecl& decl = runner_.decl();
    micro_batch_ = RandomMicroBatches(model.spec, model.batch, DType::kFloat32, 1, 5).front();
    const int64_t inputs = ElementCount(decl.input_shape);
    input_ = OwnBuffer(inputs * SizeOf(decl.input_dtype));
    if (decl.input_dtype == DType::kInt32) {
      std::copy(micro_batch_.input.begin(), micro_batch_.input.end(),
                static_cast<std::byte*>(input_.data()));
    } else {
      FillNormal(input_, inputs);
    }
    state_.input = &input_;
    if (!decl.output_shape.empty()) {
      const int64_t outputs = ElementCount(decl.output_shape);
      output_ = OwnBuffer(outputs * SizeOf(decl.output_dtype));
      output_grad_ = OwnBuffer(output_.bytes());
      FillNormal(output_grad_, outputs);
      state_.output = &output_;
      state_.output_grad = &output_grad_;
    }
    input_grad_ = OwnBuffer(input_.bytes());
    if (decl.has_input_grad) state_.input_grad = &input_grad_;
  }

  // The layer's own gradients: input_grad() and those of runner().
  void Differentiate() {
    LayerCall call = Call(kLossScale);
    runner_.layer().Forward(call);
    runner_.layer().BackwardInput(call);
    call.accumulate = false;
    runner_.layer().BackwardWeight(call);
  }
  double Objective() {
    runner_.Pack();
    runner_.layer().Forward(Call(0));
    if (state_.output == nullptr) return kLossScale * loss_;
    double sum = 0;
    for (int64_t i = 0; i < ElementCount(runner_.decl().output_shape); ++i) {
      sum += double{output_.floats()[i]} * output_grad_.floats()[i];
    }
    return sum;
  }
  LayerRunner& runner() { return runner_; }
  OwnBuffer& input() { return input_; }
  OwnBuffer& input_grad() { return input_grad_; }

 private:
  static constexpr float kLossScale = 0.5f;

  LayerCall Call(float loss_scale) {
    LayerCall call = runner_.Call(state_);
    if (state_.output != nullptr) return call;
    call.targets = micro_batch_.targets.data();
    call.loss_scale = loss_scale;
    call.loss = &loss_;
    call.correct = &correct_;
    return call;
  }
  void FillNormal(OwnBuffer& buffer, int64_t count) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) buffer.floats()[i] = normal(random_);
  }

  BatchShape batch_;
  LayerRunner runner_;
  LayerState state_;
  MicroBatch micro_batch_;
  OwnBuffer input_, output_, output_grad_, input_grad_;
  double loss_ = 0;
  int64_t correct_ = 0;
  std::mt19937_64 random_{11};
};

// Every element is moved, or under sanitizers a part of them: what they look for does not depend on
// which.
constexpr int64_t kStride = Trials(1, 7);

class LayerGradientsTest : public testing::TestWithParam<TestModel> {};

TEST_P(LayerGradientsTest, InputGradientsAreThoseOfCentralDifferences) {
  for (int index = 0; index < GetParam().spec.layer_count(); ++index) {
    LayerAlone layer(GetParam(), index);
    const LayerDecl& decl = layer.runner().decl();
    if (!decl.has_input_grad) continue;
    layer.Differentiate();
    for (int64_t i = 0; i < ElementCount(decl.input_shape); i += kStride) {
      const double numeric =
          CentralDifference(layer.input().floats()[i], kStep, [&] { return layer.Objective(); });
      ExpectGradient(layer.input_grad().floats()[i], numeric,
                     decl.name + ", input " + std::to_string(i));
    }
  }
}

TEST_P(LayerGradientsTest, ParameterGradientsAreThoseOfCentralDifferences) {
  for (int index = 0; index < GetParam().spec.layer_count(); ++index) {
    LayerAlone layer(GetParam(), index);
    layer.Differentiate();
    const LayerDecl& decl = layer.runner().decl();
    for (size_t p = 0; p < decl.parameters.size(); ++p) {
      if (decl.parameters[p].frozen) continue;
      float* values = layer.runner().parameters()[p].floats();
      for (int64_t i = 0; i < ElementCount(decl.parameters[p].shape); i += kStride) {
        const double numeric =
            CentralDifference(values[i], kStep, [&] { return layer.Objective(); });
        ExpectGradient(layer.runner().gradients()[p].floats()[i], numeric,
                       decl.parameters[p].name + " " + std::to_string(i));
      }
    }
  }
}

// End to end: what a step calls the gradient is the derivative of the mean loss by the parameter,
// and for tied parameters the sum of both is that of moving both.
TEST_P(LayerGradientsTest, WholeModelGradientsAreThoseOfTheMeanLoss) {
  const TestModel& model = GetParam();
  ModelRunner runner(model.spec, model.batch, DType::kFloat32, ReferenceKernels(), 1,
                     model.adaptation);
  std::map<std::string, std::string> twins;  // original -> its tied copy
  for (LayerRunner& layer : runner.layers()) {
    for (const ParameterDecl& decl : layer.decl().parameters) {
      LivelyParameter(decl, runner.parameter(decl.name).data());
      if (!decl.tied_to.empty()) twins[decl.tied_to] = decl.name;
    }
  }
  runner.Pack();
  const auto micro_batches = RandomMicroBatches(model.spec, model.batch, DType::kFloat32, 2, 3);
  const double rows = 2.0 * static_cast<double>(model.batch.rows());
  const StepResult step = runner.Step(micro_batches);
  const DecoderConfig* const decoder = model.spec.decoder();
  EXPECT_EQ(twins.size(), decoder != nullptr && decoder->tied_head ? 1u : 0u);

  // A sample of each parameter; the layers' tests cover every element.
  constexpr size_t kSample = Trials(7, 35);
  for (const auto& [name, gradient] : step.gradients) {
    if (name == "lm_head.weight" && !twins.empty()) continue;
    const std::string twin = twins.count(name) ? twins[name] : "";
    for (size_t i = 0; i < gradient.size(); i += kSample) {
      const absl::Span<float> values = runner.parameter(name);
      const double numeric = CentralDifference(values[i], kStep, [&] {
        if (!twin.empty()) runner.parameter(twin)[i] = values[i];
        runner.Pack();
        return runner.Loss(micro_batches) / rows;
      });
      if (!twin.empty()) runner.parameter(twin)[i] = values[i];
      const double other = twin.empty() ? 0 : step.gradients.at(twin)[i];
      ExpectGradient(gradient[i] + other, numeric, name + " " + std::to_string(i));
    }
  }
}

// With a large scale the objective bends so much over a step that the central differences
// themselves are off: by the fourth power of the step, so that half the step leaves a sixteenth. An
// error of the gradient would stay.
TEST(AdapterGradients, DifferFromDifferencesByTheirTruncationAlone) {
  double coarse = 0, fine = 0;
  for (TestModel model : AdaptedModels()) {
    if (!model.adaptation.lora.has_value()) continue;
    model.adaptation.lora->alpha = 5;
    LayerAlone layer(model, 1);
    layer.Differentiate();
    const std::vector<ParameterDecl>& decls = layer.runner().decl().parameters;
    for (size_t p = 0; p < decls.size(); ++p) {
      float* values = layer.runner().parameters()[p].floats();
      for (int64_t i = 0; i < TrainedElements(decls[p]); i += kStride) {
        const double gradient = layer.runner().gradients()[p].floats()[i];
        const auto error = [&](double step) {
          return std::abs(CentralDifference(values[i], step, [&] { return layer.Objective(); }) -
                          gradient);
        };
        coarse = std::max(coarse, error(2 * kStep));
        fine = std::max(fine, error(kStep));
      }
    }
  }
  EXPECT_GT(coarse, 50 * kTolerance);
  EXPECT_NEAR(coarse / fine, 16, 4);
}

INSTANTIATE_TEST_SUITE_P(Models, LayerGradientsTest, testing::ValuesIn(TestModels()),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Adapted, LayerGradientsTest, testing::ValuesIn(AdaptedModels()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice
