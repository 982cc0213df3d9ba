// What a GPU runs for a step, kernel by kernel: against a step and benchmarks that were measured on
// an H200, and against the FLOPs of models.
#include "partitioner/planning/roofline/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/models/attention_cases.h"
#include "models/kernels/record/recorded_kernels.h"
#include "models/layers/adapted_layers.h"
#include "models/spec/costs/describe_layers.h"
#include "models/spec/presets.h"
#include "partitioner/costs/analytic_cost.h"
#include "partitioner/planning/roofline/kernel_rates.h"
#include "partitioner/planning/sources/layer_memory.h"
#include "tests/partitioner/measured_kernels.h"

namespace sluice {
namespace {

// GPT-2 124M as tools/gpu_check trains it.
constexpr BatchShape kBatch = {.size = 16, .seq = 1024};
constexpr int kMicroBatches = 4;

ModelSpec Gpt(const char* name = "gpt2", int layers = 0) {
  ModelSpec spec = *PresetModel(name);
  auto& config = std::get<DecoderConfig>(spec.config);
  config.vocab = 50304;
  if (layers > 0) config.layers = layers;
  return spec;
}

DeviceSpec H200() { return *DataSheetDevice("h200"); }

StepLaunches Record(const ModelSpec& spec, const RecordedTraining& training = {.batch = kBatch}) {
  absl::StatusOr<StepLaunches> step = RecordStep(spec, training);
  EXPECT_TRUE(step.ok()) << step.status();
  return *std::move(step);
}

// It was measured without CUDA graphs.
std::map<KernelKind, LaunchSum> MeasuredStepByKind() {
  std::map<KernelKind, LaunchSum> sums;
  const Launches step = Record(Gpt()).Step(kMicroBatches, Recompute::kNone);
  for (const KindSum& sum : SumByKind(step, H200(), Queueing::kOneByOne)) sums[sum.kind] = sum.sum;
  return sums;
}

// Launches that a step of so many of GPT-2's blocks had when it was measured, and has no longer: the
// gradients of a layer's norms are one launch, and were four per block and two of the head in each
// micro-batch, the first of which copied; and the gradients of a block's four biases are one.
using LaunchCounts = std::map<KernelKind, int>;
LaunchCounts SavedSince(int blocks) {
  const int norms = 3 * blocks + 1, biases = 3 * blocks * kMicroBatches;
  return {{KernelKind::kAddition, norms * (kMicroBatches - 1)},
          {KernelKind::kCopy, norms},
          {KernelKind::kColumnSums, biases},
          {KernelKind::kPartSums, biases}};
}
// The profile is older: biases are rounded once per step instead of once per micro-batch, and the
// squares of up to 128 gradients are one launch.
LaunchCounts SavedSinceProfile() {
  LaunchCounts saved = SavedSince(/*blocks=*/12);
  saved[KernelKind::kRounding] = 144;
  saved[KernelKind::kBlockSquares] = 146;
  return saved;
}

int CountOf(const LaunchCounts& counts, KernelKind kind) {
  const auto found = counts.find(kind);
  return found == counts.end() ? 0 : found->second;
}

// Those of little that are among them.
double SavedSeconds(const LaunchCounts& counts, KernelKind kind) {
  return ExpectedSeconds({.kind = kind, .launches = CountOf(counts, kind)}, H200());
}

// What an expected step would have taken with the kernels of when steps were measured. The rows of
// the embedding's gradient have other kernels since.
double WithOldKernels(const Launches& step, int blocks, Queueing queueing) {
  double seconds = 0;
  for (const KindSum& each : SumByKind(step, H200(), queueing)) {
    seconds += each.kind == KernelKind::kEmbeddingRows
                   ? ReadMeasuredStep().kinds.at(each.kind).seconds
                   : each.sum.expected_seconds;
  }
  const LaunchCounts saved = SavedSince(blocks);
  for (const auto& [kind, count] : saved) {
    seconds += SavedSeconds(saved, kind) + count * GapSeconds(queueing);
  }
  return seconds;
}

double Flops(const Launches& launches) {
  return std::accumulate(launches.begin(), launches.end(), 0.0,
                         [](double sum, const KernelLaunch& each) { return sum + each.flops; });
}

TEST(Roofline, LaunchesAreThoseThatAStepOnAGpuHad) {
  const MeasuredStep measured = ReadMeasuredStep();
  // cuBLASLt's: sums of products that it divides, and fills.
  int launches = measured.split_sums.launches;
  for (const auto& [kind, sum] : MeasuredStepByKind()) {
    SCOPED_TRACE(KernelName(kind));
    ASSERT_TRUE(measured.kinds.contains(kind));
    launches += measured.kinds.at(kind).launches;
    if (kind == KernelKind::kFill) {
      EXPECT_EQ(sum.launches, 2);  // of the embedding's gradients
      EXPECT_GE(measured.kinds.at(kind).launches, sum.launches);
    } else {
      EXPECT_EQ(sum.launches + CountOf(SavedSinceProfile(), kind),
                measured.kinds.at(kind).launches);
    }
  }
  EXPECT_EQ(launches, measured.launches);
}

TEST(Roofline, NoKernelWasFasterThanItsBound) {
  const MeasuredStep measured = ReadMeasuredStep();
  for (const auto& [kind, sum] : MeasuredStepByKind()) {
    EXPECT_LE(sum.bound_seconds, measured.kinds.at(kind).seconds) << KernelName(kind);
  }
}

TEST(Roofline, ExpectedSecondsAreThoseThatAStepOnAGpuTook) {
  constexpr double kGapSeconds = GapSeconds(Queueing::kOneByOne);
  const MeasuredStep measured = ReadMeasuredStep();
  const LaunchCounts counts = SavedSinceProfile();
  LaunchSum step;
  for (const auto& [kind, sum] : MeasuredStepByKind()) {
    SCOPED_TRACE(KernelName(kind));
    if (kind == KernelKind::kEmbeddingRows) {  // has other kernels since
      step.expected_seconds += measured.kinds.at(kind).seconds + sum.launches * kGapSeconds;
      continue;
    }
    const double saved = SavedSeconds(counts, kind);
    step.expected_seconds += sum.expected_seconds + saved + CountOf(counts, kind) * kGapSeconds;
    if (kind == KernelKind::kFill) continue;
    const double busy = sum.expected_seconds + saved - sum.launches * kGapSeconds;
    EXPECT_NEAR(busy / measured.kinds.at(kind).seconds, 1, 0.15);
  }
  EXPECT_NEAR(step.expected_seconds / measured.seconds, 1, 0.02);
}

TEST(Roofline, ExpectedSecondsWithCudnnAreThoseThatAStepOnAGpuTook) {
  const absl::StatusOr<StepLaunches> step =
      RecordStep(Gpt(), {.batch = kBatch, .attention = CudaAttention::kCudnn});
  ASSERT_TRUE(step.ok()) << step.status();
  const Launches launches = step->Step(kMicroBatches, Recompute::kNone);
  const double expected = WithOldKernels(launches, 12, Queueing::kOneByOne);
  EXPECT_NEAR(expected / ReadMeasuredStep().cudnn_seconds, 1, 0.03);
}

TEST(Roofline, GraphsAreExpectedToSaveWhatTheySavedOnAGpu) {
  const MeasuredGraphs measured = ReadMeasuredGraphs();
  const Launches launches = Record(Gpt()).Step(kMicroBatches, Recompute::kNone);
  const double graphs = WithOldKernels(launches, 12, Queueing::kGraphs);
  const double one_by_one = WithOldKernels(launches, 12, Queueing::kOneByOne);
  EXPECT_LT(graphs, one_by_one);
  EXPECT_NEAR(graphs / one_by_one, measured.graphs_seconds / measured.one_by_one_seconds, 0.004);
}

// Measured as 4 stages on one GPU; none of its steps was fitted.
TEST(Roofline, ExpectedSecondsOfALargerModelAreCloseToMeasuredOnes) {
  const absl::StatusOr<StepLaunches> step = RecordStep(
      Gpt("gpt2-xl"), {.batch = {.size = 8, .seq = 1024}, .attention = CudaAttention::kCudnn});
  ASSERT_TRUE(step.ok()) << step.status();
  const Launches launches = step->Step(4, Recompute::kNone);
  const double expected = WithOldKernels(launches, 48, Queueing::kGraphs);
  EXPECT_NEAR(expected / MedianSecondsOfGpt2Xl(), 1, 0.08);
}

// The kernels do what the model needs, and attention's backward pass computes the scores twice more
// than that counts: seven products instead of four.
void ExpectFlopsOf(const ModelSpec& spec, const BatchShape& batch,
                   const Adaptation& adaptation = {}) {
  const StepLaunches step = Record(spec, {.batch = batch, .adaptation = adaptation});
  const std::vector<LayerSpec> layers = DescribeAdapted(spec, batch, adaptation, kGpuHead);
  ASSERT_EQ(step.layers.size(), layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    SCOPED_TRACE(layers[i].name);
    EXPECT_EQ(step.layers[i].name, layers[i].name);
    EXPECT_DOUBLE_EQ(Flops(step.layers[i].forward), layers[i].forward_flops);
    EXPECT_DOUBLE_EQ(Flops(step.layers[i].input_grad),
                     layers[i].input_grad_flops + 1.5 * layers[i].attention_flops);
    EXPECT_DOUBLE_EQ(Flops(step.layers[i].weight_grad), layers[i].weight_grad_flops);
  }
}

TEST(Roofline, FlopsAreThoseOfTheModel) {
  ExpectFlopsOf(Gpt(), kBatch);
  ExpectFlopsOf(Gpt("gpt2-xl", 2), {.size = 8, .seq = 1024});
  ModelSpec llama = *PresetModel("llama-3.1-8b");
  std::get<DecoderConfig>(llama.config).layers = 2;
  ExpectFlopsOf(llama, {.size = 1, .seq = 2048});
}

TEST(Roofline, FlopsOfAWindowAreThoseOfTheModel) {
  ModelSpec spec = *PresetModel("llama-3.1-8b");
  auto& config = std::get<DecoderConfig>(spec.config);
  config.layers = 1;
  config.window = 512;
  ExpectFlopsOf(spec, {.size = 1, .seq = 2048});
}

// Small enough to be recorded in no time, with grouped queries and a gate.
ModelSpec SmallLlama(int64_t layers = 2) {
  ModelSpec spec = *PresetModel("llama-3.1-8b");
  std::get<DecoderConfig>(spec.config).layers = layers;
  return spec;
}

Adaptation Adapters(double dropout = 0, std::vector<std::string> targets = {}) {
  return {.lora = Lora{.rank = 16, .dropout = dropout, .targets = std::move(targets)},
          .base_dtype = DType::kBFloat16};
}

TEST(Roofline, FlopsOfAdaptersAreThoseOfTheModel) {
  const BatchShape batch = {.size = 1, .seq = 2048};
  ExpectFlopsOf(SmallLlama(), batch, Adapters());
  ExpectFlopsOf(SmallLlama(), batch, Adapters(/*dropout=*/0.1));
  ExpectFlopsOf(SmallLlama(), batch, Adapters(0, {"q_proj", "down_proj"}));
  ExpectFlopsOf(Gpt("gpt2", 2), kBatch, Adapters());
}

TEST(Roofline, FlopsOfWhatIsFrozenAreThoseOfTheModel) {
  const BatchShape batch = {.size = 1, .seq = 2048};
  ExpectFlopsOf(SmallLlama(), batch, {.freeze = {"*.layers.0.*", "model.embed_tokens*"}});
  ExpectFlopsOf(SmallLlama(), batch, {.freeze = {"*norm*", "lm_head*", "*.up_proj.*"}});
  ExpectFlopsOf(Gpt("gpt2", 2), kBatch, {.freeze = {"*.bias"}});
}

int CountOf(const Launches& launches, KernelKind kind) {
  int count = 0;
  for (const KernelLaunch& launch : launches) count += launch.kind == kind ? launch.launches : 0;
  return count;
}

double BytesOf(const Launches& launches, KernelKind kind) {
  double bytes = 0;
  for (const KernelLaunch& launch : launches) bytes += launch.kind == kind ? launch.bytes : 0;
  return bytes;
}

TEST(Roofline, WhatIsFrozenHasNoWeightGradientAndNoUpdate) {
  const StepLaunches step = Record(
      SmallLlama(), {.batch = {.size = 1, .seq = 512}, .adaptation = {.freeze = {"*.layers.0.*"}}});
  const LayerLaunches &frozen = step.layers[1], &trained = step.layers[2];
  EXPECT_TRUE(frozen.weight_grad.empty());
  EXPECT_TRUE(frozen.first_weight_grad.empty());
  EXPECT_TRUE(frozen.update.empty());
  EXPECT_FALSE(trained.weight_grad.empty());
  EXPECT_FALSE(trained.update.empty());
  EXPECT_EQ(Sum(frozen.forward, H200()).expected_seconds,
            Sum(trained.forward, H200()).expected_seconds);
}

// The seven maps of a block have each a product down and one up again in F and I, and two in W;
// both narrow results are scaled.
TEST(Roofline, AdaptersHaveProductsOfTheirOwn) {
  const RecordedTraining training = {.batch = {.size = 1, .seq = 512}, .adaptation = Adapters()};
  const LayerLaunches whole = Record(SmallLlama(), {.batch = training.batch}).layers[1];
  const LayerLaunches adapted = Record(SmallLlama(), training).layers[1];
  const auto products = [](const Launches& launches) {
    return CountOf(launches, KernelKind::kProductForward) +
           CountOf(launches, KernelKind::kProductInputGrad) +
           CountOf(launches, KernelKind::kProductWeightGrad);
  };
  EXPECT_EQ(products(adapted.forward), products(whole.forward) + 14);
  EXPECT_EQ(products(adapted.input_grad), products(whole.input_grad) + 14);
  EXPECT_EQ(products(adapted.weight_grad), 14);
  EXPECT_EQ(CountOf(adapted.forward, KernelKind::kScale), 7);
  EXPECT_EQ(CountOf(adapted.input_grad, KernelKind::kScale), 7);
  EXPECT_EQ(CountOf(adapted.forward, KernelKind::kDropout), 0);
  const RecordedTraining dropped = {.batch = training.batch, .adaptation = Adapters(0.1)};
  const LayerLaunches with_dropout = Record(SmallLlama(), dropped).layers[1];
  for (const Launches& pass :
       {with_dropout.forward, with_dropout.input_grad, with_dropout.weight_grad}) {
    EXPECT_EQ(CountOf(pass, KernelKind::kDropout), 7);
  }
}

// Adapters' kernels take time, and what they replace takes more.
TEST(Roofline, AdaptersAreExpectedToTakeLessTimeThanTheWholeModel) {
  const BatchShape batch = {.size = 1, .seq = 2048};
  const auto seconds = [](const LayerLaunches& block) {
    return Sum(block.OneMicroBatch(), H200()).expected_seconds;
  };
  const LayerLaunches whole = Record(SmallLlama(), {.batch = batch}).layers[1];
  const auto adapted = [&](double dropout) {
    return Record(SmallLlama(), {.batch = batch, .adaptation = Adapters(dropout)}).layers[1];
  };
  EXPECT_LT(seconds(adapted(0)), seconds(whole));
  EXPECT_GT(seconds(adapted(0)), seconds(whole) - Sum(whole.weight_grad, H200()).expected_seconds);
  EXPECT_GT(seconds(adapted(0.1)), seconds(adapted(0)));
}

TEST(Roofline, SgdMovesFewerBytesThanAdamW) {
  const auto bytes = [](OptimizerKind optimizer) {
    const StepLaunches step = Record(Gpt("gpt2", 2), {.batch = kBatch, .optimizer = optimizer});
    return BytesOf(step.end, KernelKind::kOptimizer);
  };
  EXPECT_DOUBLE_EQ(bytes(OptimizerKind::kAdamW) / bytes(OptimizerKind::kSgd), 7.0 / 5);
}

// Where documents begin is copied for each micro-batch, and read by what has positions.
TEST(Roofline, PackedDocumentsAreReadToo) {
  const BatchShape batch = {.size = 2, .seq = 512};
  const StepLaunches plain = Record(SmallLlama(), {.batch = batch});
  const StepLaunches packed = Record(SmallLlama(), {.batch = batch, .documents = true});
  EXPECT_EQ(plain.batch.size(), 2u);
  EXPECT_EQ(packed.batch.size(), 3u);
  const double starts = static_cast<double>(batch.rows() * sizeof(int32_t));
  EXPECT_EQ(BytesOf(packed.layers[1].forward, KernelKind::kRope) -
                BytesOf(plain.layers[1].forward, KernelKind::kRope),
            2 * starts);
  EXPECT_EQ(Flops(packed.layers[1].forward), Flops(plain.layers[1].forward));
}

TEST(Roofline, WhatGpusCannotTrainIsSaid) {
  using testing::HasSubstr;
  const auto message = [](std::optional<MasterWeights> weights, CudaAttention attention,
                          bool documents) {
    return std::string(CheckOnGpus(weights, attention, documents).message());
  };
  EXPECT_EQ(message(std::nullopt, CudaAttention::kCudnn, false), "");
  EXPECT_EQ(message(MasterWeights::kSplit, CudaAttention::kSluice, true), "");
  EXPECT_THAT(message(MasterWeights::kWhole, CudaAttention::kSluice, false),
              HasSubstr("--master-weights whole"));
  EXPECT_THAT(message(std::nullopt, CudaAttention::kCudnn, true), HasSubstr("--attention cudnn"));
}

// Attention runs on tensor cores but for heads whose rows do not begin and end where 16 bytes do.
TEST(Roofline, AttentionHasTheKernelsOfItsHeads) {
  ModelSpec spec = *PresetModel("llama-3.1-8b");
  auto& config = std::get<DecoderConfig>(spec.config);
  config.layers = 1;
  for (const auto& [width, cap] : {std::pair(128, 0.0f), {128, 30.0f}, {100, 0.0f}}) {
    config.head_dim = width;
    config.attention_soft_cap = cap;
    const StepLaunches step = Record(spec, {.batch = {.size = 1, .seq = 2048}});
    const auto attention =
        std::find_if(step.layers[1].forward.begin(), step.layers[1].forward.end(),
                     [](const KernelLaunch& launch) { return launch.seq != 0; });
    ASSERT_NE(attention, step.layers[1].forward.end());
    EXPECT_EQ(attention->kind,
              width % 8 == 0 ? KernelKind::kAttentionForward : KernelKind::kPlainAttentionForward);
    EXPECT_EQ(attention->arithmetic, width % 8 == 0 ? DType::kBFloat16 : DType::kFloat32);
  }
}

TEST(Roofline, RecomputationAddsWhatItRunsAgain) {
  const StepLaunches step = Record(Gpt("gpt2", 2));
  const auto flops = [&](Recompute recompute) { return Flops(step.Step(1, recompute)); };
  double forward = 0, again = 0, restore = 0;
  for (const LayerLaunches& layer : step.layers) {
    forward += Flops(layer.forward);
    again += Flops(layer.forward_again);
    restore += Flops(layer.restore);
  }
  EXPECT_GT(restore, 0);
  EXPECT_LT(restore, again);
  EXPECT_LT(again, forward);  // the last product of a block is not needed
  EXPECT_DOUBLE_EQ(flops(Recompute::kSelective), flops(Recompute::kNone) + restore);
  EXPECT_DOUBLE_EQ(flops(Recompute::kFull), flops(Recompute::kNone) + again);
}

TEST(Roofline, LayersThatRunTheSameAreOneGroup) {
  const std::vector<LayerGroup> groups = GroupLayers(Record(Gpt()), H200());
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "embedding");
  EXPECT_EQ(groups[1].name, "block 0-11");
  EXPECT_EQ(groups[1].layers, 12);
  EXPECT_EQ(groups[2].name, "head");
  // Two norms, four products, GELU and attention.
  EXPECT_EQ(groups[1].forward.launches, 8);
}

TEST(Roofline, SecondsOfLayersAddUpToTheStep) {
  const StepLaunches step = Record(Gpt());
  std::vector<LayerCost> costs(step.layers.size());
  SetExpectedSeconds(step, H200(), &costs);
  double seconds = 0;
  for (const LayerCost& cost : costs) {
    seconds += kMicroBatches *
                   (cost.forward_seconds + cost.input_grad_seconds + cost.weight_grad_seconds) +
               cost.update_seconds - cost.tied_update_seconds + cost.tied_sum_seconds;
  }
  const double whole = Sum(step.Step(kMicroBatches, Recompute::kNone), H200()).expected_seconds;
  EXPECT_NEAR(seconds / whole, 1, 0.01);
}

// A head on a device of its own updates a table as the embedding does; otherwise its norm alone.
TEST(Roofline, ATiedHeadUpdatesItsTableWhereTheEmbeddingIsElsewhere) {
  const StepLaunches step = Record(Gpt());
  std::vector<LayerCost> costs(step.layers.size());
  SetExpectedSeconds(step, H200(), &costs);
  const LayerCost &embedding = costs.front(), &head = costs.back();
  // Of positions the embedding has a second table, a fiftieth; and there is a launch or two of
  // little for each layer alone.
  EXPECT_GT(head.tied_update_seconds, 0.8 * embedding.update_seconds);
  EXPECT_LT(head.tied_update_seconds, embedding.update_seconds);
  EXPECT_LT(head.update_seconds - head.tied_update_seconds, 0.2 * embedding.update_seconds);
  EXPECT_EQ(costs[1].tied_update_seconds, 0);
  // Two gradients are read and one is written; AdamW moves more than twice that of each element.
  EXPECT_GT(head.tied_sum_seconds, 0.2 * head.tied_update_seconds);
  EXPECT_LT(head.tied_sum_seconds, 0.6 * head.tied_update_seconds);
  EXPECT_EQ(embedding.tied_sum_seconds, 0);
}

// The formulae, by which `sluice plan` prices other devices, were fitted to steps of other programs
// on A100s. These kernels take longer on an H200, by less than a fifth.
TEST(Roofline, FormulaeOfPlansAgreeWithinAFifth) {
  const std::pair<const char*, int64_t> cases[] = {{"gpt2", 16}, {"gpt2-xl", 8}};
  for (const auto& [name, size] : cases) {
    SCOPED_TRACE(name);
    const ModelSpec spec = Gpt(name);
    const BatchShape batch = {.size = size, .seq = 1024};
    std::vector<LayerCost> formula =
        *DeclaredCosts(spec, batch, DType::kBFloat16, OptimizerKind::kAdamW, RecordedKernels());
    std::vector<LayerCost> expected = formula;
    SetAnalyticSeconds(DescribeLayers(spec, batch, kGpuHead), batch, DType::kBFloat16,
                       *BuiltInDevice("h200"), &formula);
    SetExpectedSeconds(Record(spec, {.batch = batch}), H200(), &expected);
    const auto seconds = [](const std::vector<LayerCost>& costs) {
      double sum = 0;
      for (const LayerCost& cost : costs)
        sum += cost.forward_seconds + cost.input_grad_seconds + cost.weight_grad_seconds;
      return sum;
    };
    EXPECT_LT(seconds(formula), seconds(expected));
    EXPECT_GT(seconds(formula), 0.8 * seconds(expected));
  }
}

// One call, as the benchmark makes it.
Launches LaunchesOf(const MeasuredProduct& product) {
  const Activation gelu = product.gelu ? Activation::kGelu : Activation::kNone;
  const bool forward = product.pass == "forward";
  LaunchRecord record;
  const std::unique_ptr<Linear> linear =
      RecordedKernels().make_linear({.rows = product.rows,
                                     .in = product.in,
                                     .out = product.out,
                                     .dtype = DType::kBFloat16,
                                     .activation = forward ? gelu : Activation::kNone,
                                     .input_activation = forward ? Activation::kNone : gelu});
  float any = 0;
  if (forward) {
    linear->Forward({}, &any, &any, &any, &any, nullptr, &any, product.gelu ? &any : nullptr, &any);
  } else if (product.pass == "input gradient") {
    linear->BackwardInput({}, &any, &any, &any, product.gelu ? &any : nullptr, &any, &any);
  } else {
    linear->BackwardWeight({}, &any, &any, &any, /*accumulate=*/true, &any);
    const SummedColumns bias = {.rows = product.rows, .columns = product.out};
    RecordedKernels().column_sums({}, DType::kBFloat16, {&bias, 1}, /*accumulate=*/true, &any);
  }
  return record.Take();
}

TEST(Roofline, ExpectedSecondsOfProductsAreThoseOfBenchmarks) {
  const std::vector<MeasuredProduct> products = ReadMeasuredProducts();
  EXPECT_EQ(products.size(), 24u);  // of GPT-2 124M and of 1.5B
  for (const MeasuredProduct& product : products) {
    SCOPED_TRACE(testing::Message() << product.pass << " [" << product.rows << ", " << product.in
                                    << "] x [" << product.out << "], gelu: " << product.gelu);
    const double expected = Sum(LaunchesOf(product), H200(), Queueing::kOneByOne).expected_seconds;
    EXPECT_NEAR(expected / product.seconds, 1, 0.2);
  }
}

// GPT-2's 50,257 words are multiplied as 50,304 are, but for the gradient of the last of them.
TEST(Roofline, AnOddVocabularyTakesAsLongAsAnEvenOne) {
  ModelSpec odd = Gpt();
  std::get<DecoderConfig>(odd.config).vocab = 50257;
  const auto sum = [](const ModelSpec& spec) {
    return Sum(Record(spec).Step(kMicroBatches, Recompute::kNone), H200());
  };
  const LaunchSum even = sum(Gpt()), one = sum(odd);
  EXPECT_EQ(one.launches, even.launches + kMicroBatches);
  EXPECT_NEAR(one.expected_seconds / even.expected_seconds, 1, 0.005);
}

AttentionShape ShapeOf(const std::string& name) {
  for (const AttentionCase& each : kAttentionCases) {
    if (name == each.name) return each.shape;
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(Roofline, ExpectedSecondsOfAttentionAreThoseOfBenchmarks) {
  const std::vector<MeasuredAttention> rows = ReadMeasuredAttention();
  EXPECT_EQ(rows.size(), 26u);  // cuDNN's for the five shapes that it takes
  for (const MeasuredAttention& row : rows) {
    SCOPED_TRACE(row.shape + (row.cudnn ? ", cuDNN" : "") +
                 (row.forward ? ", forward" : ", backward"));
    LaunchRecord record;
    const CudaAttention whose = row.cudnn ? CudaAttention::kCudnn : CudaAttention::kSluice;
    AttentionShape shape = ShapeOf(row.shape);
    // Windows were measured when they had the kernels that rows without alignment still have.
    if (shape.window > 0) ++shape.q_stride;
    const auto attention = RecordedKernels(whose).make_attention(shape);
    ASSERT_TRUE(attention.ok()) << attention.status();
    float any = 0;
    const AttentionInput in = {.q = &any, .k = &any, .v = &any};
    if (row.forward) {
      (*attention)->Forward({}, in, &any, &any, &any);
    } else {
      (*attention)->Backward({}, in, &any, &any, &any, &any, &any, &any, &any);
    }
    const double expected = Sum(record.Take(), H200(), Queueing::kOneByOne).expected_seconds;
    EXPECT_NEAR(expected / row.seconds, 1, 0.2);
  }
}

}  // namespace
}  // namespace sluice
