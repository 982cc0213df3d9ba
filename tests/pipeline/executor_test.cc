// The executor against a naive twin: the layers called one after the other, with separate memory
// for every tensor.
#include "pipeline/run/executor.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/local/in_process.h"
#include "pipeline/compile/compile_run.h"
#include "tests/pipeline/haunted_layer.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

Timetable OneStage(int micro_batches, const std::vector<Action>& row) {
  Timetable table;
  table.name = "rows";
  table.micro_batches = micro_batches;
  table.rows = {row};
  return table;
}

Action At(Op op, int micro_batch) { return {.op = op, .micro_batch = micro_batch}; }

// F, I and W of one micro-batch.
Timetable ThreeActions() {
  return OneStage(1, {At(Op::kForward, 0), At(Op::kInputGrad, 0), At(Op::kWeightGrad, 0)});
}

// One rank that holds a whole model, and its executor.
struct OneRank {
  explicit OneRank(const RunRequest& request)
      : plan(*CompileRun(request)),
        data(plan.request.spec, plan.request.batch.seq),
        state(*RankState::Create(plan, 0)),
        group(1),
        executor(state.get(), state->train_program(), state->layout().train, &group.communicator(0),
                 &data) {
    state->Initialize(7);
    state->Pack();
  }

  const RunPlan plan;
  const HashedData data;
  const std::unique_ptr<RankState> state;
  InProcessGroup group;
  Executor executor;
};

// The losses and gradients of the layers alone, called directly.
class NaiveStep {
 public:
  explicit NaiveStep(OneRank* rank) : rank_(*rank), request_(rank->plan.request) {
    for (int index = 0; index < request_.spec.layer_count(); ++index) {
      layers_.push_back(
          *MakeLayer(request_.spec, index, request_.batch, request_.dtype, *request_.kernels));
      packed_.emplace_back(layers_.back()->decl().packed_bytes);
      LayerCall call = CallOf(static_cast<size_t>(index));
      layers_.back()->Pack(call);
    }
  }

  // The loss of a micro-batch, summed over its rows; its gradients are added to `gradients`.
  double Run(int64_t micro_batch, bool first, std::vector<std::vector<float>>* gradients) {
    targets_.resize(static_cast<size_t>(request_.batch.rows()));
    std::vector<std::byte> activation(
        Bytes(layers_[0]->decl().input_shape, layers_[0]->decl().input_dtype));
    rank_.data.Fill(Split::kTrain, micro_batch, request_.batch.size, request_.dtype,
                    {.input = activation.data(), .targets = targets_.data()});
    double loss = 0;
    int64_t correct = 0;
    std::vector<std::vector<std::byte>> inputs;
    std::vector<std::vector<std::vector<std::byte>>> tensors(layers_.size());
    for (size_t l = 0; l < layers_.size(); ++l) {
      const LayerDecl& decl = layers_[l]->decl();
      inputs.push_back(std::move(activation));
      activation.assign(Bytes(decl.output_shape, decl.output_dtype), std::byte{0});
      for (const TensorDecl& tensor : decl.tensors)
        tensors[l].emplace_back(static_cast<size_t>(tensor.bytes()));
      LayerCall call = Call(l, inputs[l], tensors[l]);
      call.output = decl.output_shape.empty() ? nullptr : activation.data();
      Finish(l, &call, &loss, &correct);
      layers_[l]->Forward(call);
    }
    std::vector<std::byte> gradient;
    for (size_t l = layers_.size(); l-- > 0;) {
      const LayerDecl& decl = layers_[l]->decl();
      std::vector<std::byte> input_grad(Bytes(decl.input_shape, decl.input_dtype));
      LayerCall call = Call(l, inputs[l], tensors[l]);
      call.output_grad = gradient.data();
      call.input_grad = decl.has_input_grad ? input_grad.data() : nullptr;
      Finish(l, &call, &loss, &correct);
      layers_[l]->BackwardInput(call);
      std::vector<float*> places;
      for (size_t p = 0; p < decl.parameters.size(); ++p)
        places.push_back((*gradients)[Index(l) + p].data());
      call.gradients = places;
      call.accumulate = !first;
      layers_[l]->BackwardWeight(call);
      gradient = std::move(input_grad);
    }
    return loss;
  }

 private:
  static size_t Bytes(const Shape& shape, DType dtype) {
    return shape.empty() ? 0 : static_cast<size_t>(ElementCount(shape) * SizeOf(dtype));
  }

  size_t Index(size_t layer) const {
    size_t index = 0;
    for (size_t l = 0; l < layer; ++l) index += layers_[l]->decl().parameters.size();
    return index;
  }

  LayerCall CallOf(size_t layer) {
    parameters_.clear();
    for (const ParameterView& view : rank_.state->ParametersOf(static_cast<int>(layer)))
      parameters_.push_back(view.weight);
    LayerCall call;
    call.stream = rank_.state->stream();
    call.parameters = parameters_;
    call.packed = packed_[layer].data();
    return call;
  }

  LayerCall Call(size_t layer, std::vector<std::byte>& input,
                 std::vector<std::vector<std::byte>>& tensors) {
    LayerCall call = CallOf(layer);
    call.input = input.data();
    pointers_.clear();
    for (std::vector<std::byte>& tensor : tensors) pointers_.push_back(tensor.data());
    call.tensors = pointers_;
    return call;
  }

  // The additional arguments of the last layer.
  void Finish(size_t layer, LayerCall* call, double* loss, int64_t* correct) {
    if (layer + 1 < layers_.size()) return;
    call->targets = targets_.data();
    call->loss = loss;
    call->correct = correct;
    call->loss_scale =
        1.0F / static_cast<float>(request_.batch.rows() * rank_.plan.global_micro_batches());
  }

  OneRank& rank_;
  const RunRequest& request_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::vector<std::byte>> packed_;
  std::vector<int32_t> targets_;
  std::vector<void*> parameters_;
  std::vector<void*> pointers_;
};

std::vector<std::vector<float>> ZeroGradients(const RankState& state) {
  std::vector<std::vector<float>> gradients;
  for (const ParameterView& view : state.parameters())
    gradients.emplace_back(static_cast<size_t>(view.elements));
  return gradients;
}

// Runs a step of `table` both ways and compares losses and gradients to the bit.
void ExpectEqualsNaive(const char* model, const Timetable& table) {
  OneRank rank(
      MakeRequest({.model = model, .ranks = 1, .micro_batches = table.micro_batches}, table));
  ASSERT_TRUE(rank.executor.Run({.first_micro_batch = 3}).ok());
  NaiveStep naive(&rank);
  std::vector<std::vector<float>> gradients = ZeroGradients(*rank.state);
  for (int mb = 0; mb < table.micro_batches; ++mb) {
    const double loss = naive.Run(3 + mb, mb == 0, &gradients);
    EXPECT_EQ(rank.executor.losses()[static_cast<size_t>(mb)], loss) << model << " " << mb;
  }
  for (size_t p = 0; p < gradients.size(); ++p) {
    const ParameterView& view = rank.state->parameters()[p];
    const std::vector<float> mine(view.gradient, view.gradient + view.elements);
    EXPECT_EQ(mine, gradients[p]) << model << " " << view.decl->name;
  }
}

TEST(Executor, ThreeActionsGiveWhatTheLayersGive) {
  for (const char* model : {"mlp", "gpt", "rms"}) ExpectEqualsNaive(model, ThreeActions());
}

TEST(Executor, TwoMicroBatchesAreAddedUp) {
  ExpectEqualsNaive("gpt",
                    OneStage(2, {At(Op::kForward, 0), At(Op::kForward, 1), At(Op::kBackward, 0),
                                 At(Op::kInputGrad, 1), At(Op::kWeightGrad, 1)}));
}

TEST(Executor, TimesEveryActionInTheOrderOfTheRow) {
  OneRank rank(MakeRequest({.model = "mlp", .ranks = 1, .micro_batches = 1}, ThreeActions()));
  ASSERT_TRUE(rank.executor.Run({}).ok());
  const std::vector<ActionTime>& times = rank.executor.times();
  ASSERT_EQ(times.size(), 3u);
  for (size_t a = 0; a < times.size(); ++a) {
    EXPECT_GE(times[a].end, times[a].start);
    EXPECT_GE(times[a].start, a == 0 ? 0 : times[a - 1].end);
  }
}

// Runs only the first micro-batches, as evaluation does at the end of a split.
TEST(Executor, LeavesOutMicroBatchesBeyondTheLastOneAskedFor) {
  OneRank rank(MakeRequest({.model = "mlp", .ranks = 1, .micro_batches = 2},
                           OneStage(2, {At(Op::kForward, 0), At(Op::kBackward, 0),
                                        At(Op::kForward, 1), At(Op::kBackward, 1)})));
  Executor evaluate(rank.state.get(), rank.state->evaluate_program(), rank.state->layout().evaluate,
                    &rank.group.communicator(0), &rank.data);
  ASSERT_TRUE(evaluate.Run({.split = Split::kValidation, .train = false, .micro_batches = 1}).ok());
  EXPECT_GT(evaluate.losses()[0], 0);
  ASSERT_EQ(evaluate.times().size(), 2u);
  EXPECT_GT(evaluate.times()[0].end, 0);
  EXPECT_EQ(evaluate.times()[1].end, 0) << "did not run";
}

TEST(Executor, NamesTheFirstValueThatIsNotFinite) {
  RunRequest request =
      MakeRequest({.model = "gpt", .ranks = 1, .micro_batches = 1}, ThreeActions());
  OneRank rank(request);
  // A weight of block 1.
  for (const ParameterView& view : rank.state->parameters()) {
    if (view.decl->name == "transformer.h.1.mlp.c_fc.bias") {
      static_cast<float*>(view.weight)[0] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  rank.state->Pack();
  NonFinite found;
  ASSERT_TRUE(rank.executor.Run({.check_finite = &found}).ok());
  EXPECT_EQ(found.where, NonFinite::Where::kForward);
  EXPECT_EQ(found.layer, 2) << "the embedding is layer 0";
  EXPECT_EQ(found.micro_batch, 0);
}

// What is rebuilt for a backward has neither an output nor a loss to look at.
TEST(Executor, FindsNothingWhereAllValuesAreFinite) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    for (const bool ahead : {false, true}) {
      if (ahead && recompute != Recompute::kFull) continue;
      OneRank rank(MakeRequest({.model = "gpt",
                                .ranks = 1,
                                .micro_batches = 1,
                                .recompute = recompute,
                                .recompute_ahead = ahead}));
      NonFinite found;
      ASSERT_TRUE(rank.executor.Run({.check_finite = &found}).ok());
      EXPECT_EQ(found.where, NonFinite::Where::kNowhere) << static_cast<int>(recompute);
    }
  }
}

}  // namespace
}  // namespace sluice
