#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/models/layers/test_models.h"
#include "tests/models/twins/model_runner.h"
#include "tests/models/twins/reference_kernels.h"

// What a layer says of its memory is what a pipeline's arena is planned from, so it must hold to
// the byte and the bit.
namespace sluice {
namespace {

// What is frozen is kept in the compute type.
Adaptation AdaptationOf(const TestModel& model, DType dtype) {
  Adaptation adaptation = model.adaptation;
  adaptation.base_dtype = dtype;
  return adaptation;
}

class LayerMemoryTest : public testing::TestWithParam<TestCase> {
 protected:
  const TestModel& model() const { return GetParam().model; }
  DType dtype() const { return GetParam().dtype; }
  const Kernels& kernels() const { return *GetParam().kernels; }

  StepResult Step(const StepOptions& options) const {
    ModelRunner runner(model().spec, model().batch, dtype(), kernels(), 1,
                       AdaptationOf(model(), dtype()));
    for (LayerRunner& layer : runner.layers()) {
      for (const ParameterDecl& decl : layer.decl().parameters) {
        LivelyParameter(decl, runner.parameter(decl.name).data());
      }
    }
    runner.Pack();
    return runner.Step(RandomMicroBatches(model().spec, model().batch, dtype(), 3, 3), options);
  }
};

bool HasNan(const StepResult& result) {
  for (const auto& [name, gradient] : result.gradients) {
    for (float value : gradient) {
      if (std::isnan(value)) return true;
    }
  }
  return false;
}

TEST_P(LayerMemoryTest, NothingIsReadOutsideItsDeclaredLife) {
  const StepResult expected = Step({});
  EXPECT_FALSE(HasNan(expected));
  EXPECT_EQ(Step({.poison = true}), expected);
  EXPECT_EQ(Step({.weight_gradients_last = true, .poison = true}), expected);
}

TEST_P(LayerMemoryTest, WeightGradientsMayComeLater) {
  EXPECT_EQ(Step({.weight_gradients_last = true}), Step({}));
}

TEST_P(LayerMemoryTest, RecomputationGivesTheSameBits) {
  const StepResult expected = Step({});
  for (Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    for (bool last : {false, true}) {
      const StepOptions options{
          .recompute = recompute, .weight_gradients_last = last, .poison = true};
      EXPECT_EQ(Step(options), expected) << "recompute " << static_cast<int>(recompute);
    }
  }
}

// One layer at a time, down to the bytes of its tensors.
class OneLayer {
 public:
  OneLayer(const TestModel& model, int index, DType dtype, const Kernels& kernels)
      : runner_(
            MakeLayer(model.spec, index, model.batch, dtype, kernels, AdaptationOf(model, dtype))
                .value(),
            LivelyParameter),
        state_(runner_.decl()) {
    data_ = RandomMicroBatches(model.spec, model.batch, dtype, 1, 5).front();
    const LayerDecl& decl = runner_.decl();
    Fill(input_, decl.input_shape, decl.input_dtype);
    if (decl.input_dtype == DType::kInt32) {
      std::memcpy(input_.data(), data_.input.data(), data_.input.size());
    }
    output_ = OwnBuffer(ElementCount(decl.output_shape) * SizeOf(decl.output_dtype));
    input_grad_ = OwnBuffer(input_.bytes());
    Fill(output_grad_, decl.output_shape, decl.output_dtype);
    state_.input = &input_;
    state_.input_grad = &input_grad_;
    state_.output = decl.output_shape.empty() ? nullptr : &output_;
    state_.output_grad = decl.output_shape.empty() ? nullptr : &output_grad_;
  }

  LayerCall Call() {
    LayerCall call = runner_.Call(state_);
    call.targets = data_.targets.data();
    call.loss_scale = 0.5f;
    call.loss = &loss_;
    call.correct = &correct_;
    call.accumulate = false;
    return call;
  }
  // F, I and W, with `victim` overwritten with NaN right after `moment`.
  void Run(Moment moment, OwnBuffer* victim) {
    const auto poison = [&](Moment now) {
      if (victim != nullptr && now == moment) victim->Poison();
    };
    layer().Forward(Call());
    poison(Moment::kForward);
    layer().BackwardInput(Call());
    poison(Moment::kInputGrad);
    layer().BackwardWeight(Call());
  }
  // True when a NaN reached the input's or a weight's gradient.
  bool Poisoned(DType dtype) {
    const LayerDecl& decl = runner_.decl();
    for (int64_t i = 0; decl.has_input_grad && i < ElementCount(decl.input_shape); ++i) {
      if (std::isnan(reference::Get(dtype, input_grad_.data(), i))) return true;
    }
    for (size_t p = 0; p < decl.parameters.size(); ++p) {
      for (int64_t i = 0; i < TrainedElements(decl.parameters[p]); ++i) {
        if (std::isnan(runner_.gradients()[p].floats()[i])) return true;
      }
    }
    return false;
  }
  std::vector<std::string> TensorBytes() {
    std::vector<std::string> bytes;
    for (OwnBuffer& tensor : state_.tensors) {
      bytes.emplace_back(static_cast<const char*>(tensor.data()),
                         static_cast<size_t>(tensor.bytes()));
    }
    return bytes;
  }
  Layer& layer() { return runner_.layer(); }
  const LayerDecl& decl() const { return *state_.decl; }
  LayerState& state() { return state_; }

 private:
  static void Fill(OwnBuffer& buffer, const Shape& shape, DType dtype) {
    const int64_t count = shape.empty() ? 0 : ElementCount(shape);
    buffer = OwnBuffer(count * SizeOf(dtype));
    for (int64_t i = 0; dtype != DType::kInt32 && i < count; ++i) {
      reference::Set(dtype, buffer.data(), i, std::sin(1.7 * static_cast<double>(i)));
    }
  }

  LayerRunner runner_;
  LayerState state_;
  MicroBatch data_;
  OwnBuffer input_, output_, output_grad_, input_grad_;
  double loss_ = 0;
  int64_t correct_ = 0;
};

bool OutlivesForward(Lifetime lifetime) {
  return lifetime == Lifetime::kForwardToInputGrad || lifetime == Lifetime::kForwardToWeightGrad;
}

TEST_P(LayerMemoryTest, RestoreRebuildsEveryTensorToTheBit) {
  for (int index = 0; index < model().spec.layer_count(); ++index) {
    OneLayer layer(model(), index, dtype(), kernels());
    layer.layer().Forward(layer.Call());
    const std::vector<std::string> expected = layer.TensorBytes();
    layer.state().Drop(Recompute::kSelective);
    layer.state().Expire(Moment::kForward);
    layer.layer().Restore(layer.Call());
    const std::vector<std::string> found = layer.TensorBytes();
    for (size_t i = 0; i < found.size(); ++i) {
      const TensorDecl& tensor = layer.decl().tensors[i];
      if (!OutlivesForward(tensor.lifetime)) continue;
      EXPECT_EQ(found[i], expected[i]) << tensor.name;
    }
  }
}

// The other side of honesty: a tensor that is gone one call before its declared end is missed. So
// no byte is held in vain, and the tests above would notice one that is let go too early. The plain
// kernels check all their inputs.
class LayerLifetimeTest : public LayerMemoryTest {};

TEST_P(LayerLifetimeTest, NoTensorIsKeptLongerThanItIsRead) {
  for (int index = 0; index < model().spec.layer_count(); ++index) {
    OneLayer layer(model(), index, dtype(), kernels());
    layer.Run(Moment::kWeightGrad, nullptr);
    EXPECT_FALSE(layer.Poisoned(dtype()));
    for (size_t i = 0; i < layer.decl().tensors.size(); ++i) {
      const TensorDecl& tensor = layer.decl().tensors[i];
      const bool until_weight_grad = tensor.lifetime == Lifetime::kForwardToWeightGrad ||
                                     tensor.lifetime == Lifetime::kInputGradToWeightGrad;
      if (!until_weight_grad && !OutlivesForward(tensor.lifetime)) continue;
      layer.Run(until_weight_grad ? Moment::kInputGrad : Moment::kForward,
                &layer.state().tensors[i]);
      EXPECT_TRUE(layer.Poisoned(dtype())) << layer.decl().name << ": " << tensor.name;
    }
  }
}

TEST_P(LayerLifetimeTest, NoBoundaryIsKeptLongerThanItIsRead) {
  const auto one_before = [](LastUse use) {
    return use == LastUse::kWeightGrad ? Moment::kInputGrad : Moment::kForward;
  };
  for (int index = 0; index < model().spec.layer_count(); ++index) {
    OneLayer layer(model(), index, dtype(), kernels());
    const LayerDecl& decl = layer.decl();
    const bool trains =
        std::any_of(decl.parameters.begin(), decl.parameters.end(),
                    [](const ParameterDecl& parameter) { return !parameter.frozen; });
    if (decl.input_use == LastUse::kForward) {  // one_before() knows no moment before F
      EXPECT_FALSE(model().adaptation.ToString().empty()) << decl.name;
    } else if (decl.input_dtype != DType::kInt32) {  // tokens have no NaN
      layer.Run(one_before(decl.input_use), layer.state().input);
      EXPECT_TRUE(layer.Poisoned(dtype())) << decl.name << ": input";
    }
    OneLayer again(model(), index, dtype(), kernels());
    if (again.state().output_grad == nullptr || !(trains || decl.has_input_grad)) continue;
    again.Run(one_before(decl.output_grad_use), again.state().output_grad);
    EXPECT_TRUE(again.Poisoned(dtype())) << decl.name << ": output_grad";
  }
}

TEST_P(LayerMemoryTest, AccumulationAddsAndItsAbsenceOverwrites) {
  ModelRunner runner(model().spec, model().batch, dtype(), kernels(), 1,
                     AdaptationOf(model(), dtype()));
  const auto data = RandomMicroBatches(model().spec, model().batch, dtype(), 1, 3);
  const StepResult once = runner.Step(data);
  EXPECT_EQ(runner.Step(data), once);  // the first micro-batch of a step overwrites
  const StepResult twice = runner.Step({data[0], data[0]});
  // Each of the two weighs half, and halving and doubling are exact (but where bf16 has subnormals
  // to round).
  for (const auto& [name, gradient] : once.gradients) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(twice.gradients.at(name)[i], gradient[i], 1e-6 * (1 + std::abs(gradient[i])));
    }
  }
}

const auto kName = [](const auto& test) { return test.param.name(); };
INSTANTIATE_TEST_SUITE_P(Models, LayerMemoryTest,
                         testing::ValuesIn(TestCases(TestModels(),
                                                     {&ReferenceKernels(), &CpuKernels()})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Models, LayerLifetimeTest,
                         testing::ValuesIn(TestCases(TestModels(), {&ReferenceKernels()})), kName);
INSTANTIATE_TEST_SUITE_P(Adapted, LayerMemoryTest,
                         testing::ValuesIn(TestCases(AdaptedModels(),
                                                     {&ReferenceKernels(), &CpuKernels()})),
                         kName);
INSTANTIATE_TEST_SUITE_P(Adapted, LayerLifetimeTest,
                         testing::ValuesIn(TestCases(AdaptedModels(), {&ReferenceKernels()})),
                         kName);

}  // namespace
}  // namespace sluice
