// The costs of one rank, and how the degrees of parallelism change them.
#include "partitioner/costs/decoder_cost.h"

#include <gtest/gtest.h>

#include "models/spec/costs/describe_layers.h"
#include "models/spec/presets.h"
#include "partitioner/costs/collectives.h"
#include "partitioner/cuts/cost_table.h"

namespace sluice {
namespace {

DecoderConfig Gpt(int layers = 2) {
  DecoderConfig gpt;
  gpt.layers = layers;
  gpt.dim = 1024;
  gpt.heads = 16;
  gpt.vocab = 51200;
  gpt.max_seq = 2048;
  return gpt;
}

DecoderTraining Megatron() {
  DecoderTraining training;
  training.batch = {2, 2048};
  training.kernels = {.flash_attention = false, .dropout = true};
  return training;
}

ClusterSpec Nodes() {
  ClusterSpec cluster = UniformCluster(*BuiltInDevice("a100"), 8);
  cluster.between = {1e-5, 25e9};
  cluster.cards_per_node = 4;
  return cluster;
}

LayerCost Block(const DecoderTraining& training, const Parallel& parallel) {
  return DecoderCosts(Gpt(), training, parallel, Nodes())[1];
}

// Korthikanti et al. 2022, equations 2 and 4.
TEST(DecoderCosts, KeepsWhatKorthikantiCountsPerRank) {
  const int64_t s = 2048, b = 2, h = 1024, a = 16;
  for (const int t : {1, 2, 4, 8}) {
    const LayerCost plain = Block(Megatron(), {.tensor = t});
    EXPECT_EQ(plain.saved_bytes[0], s * b * h * 10 + (s * b * h * 24 + 5 * a * s * s * b) / t);
    EXPECT_EQ(plain.saved_bytes[2], 2 * s * b * h);
    const LayerCost sliced = Block(Megatron(), {.tensor = t, .sequence = true});
    EXPECT_EQ(sliced.saved_bytes[0], (s * b * h * 34 + 5 * a * s * s * b) / t);
    EXPECT_EQ(sliced.saved_bytes[2], 2 * s * b * h / t);
    EXPECT_EQ(plain.output_bytes, 2 * s * b * h / t);
  }
}

TEST(DecoderCosts, TensorParallelRanksHoldTheModelBetweenThem) {
  int64_t whole = 0;
  for (const LayerCost& cost : DecoderCosts(Gpt(), Megatron(), {}, Nodes())) {
    whole += cost.parameters;
  }
  EXPECT_EQ(whole, ParameterCount({"gpt", Gpt()}));
  const LayerCost one = Block(Megatron(), {}), four = Block(Megatron(), {.tensor = 4});
  // 12 h^2 weights and 7 h biases are shared; two norms of 2 h and the two biases after a sum are
  // whole on each.
  const int64_t h = 1024;
  EXPECT_EQ(one.parameters, 12 * h * h + 13 * h);
  EXPECT_EQ(four.parameters, (12 * h * h + 7 * h) / 4 + 6 * h);
}

TEST(DecoderCosts, ATiedHeadHoldsATableUnlessItsRankHasTheEmbedding) {
  DecoderConfig gpt = Gpt();
  gpt.tied_head = true;
  const DecoderTraining training = Megatron();
  for (const int tensor : {1, 3, 4}) {
    const auto price = [&](const DecoderConfig& config) {
      return *CostTable::Create(DecoderCosts(config, training, {.tensor = tensor}, Nodes()));
    };
    const CostTable tied = price(gpt), untied = price(Gpt());
    const auto bytes = [](const CostTable& costs, int first) {
      return costs.Price(first, costs.layer_count(), Recompute::kNone).parameter_bytes;
    };
    const int64_t words = (51200 + tensor - 1) / tensor;
    EXPECT_EQ(bytes(tied, 1), bytes(untied, 1));
    EXPECT_EQ(bytes(tied, 0), bytes(untied, 0) - 18 * words * 1024) << tensor;
  }
}

// Nor do its replicas sum a gradient of it there.
TEST(DecoderCosts, ATiedHeadUpdatesATableUnlessItsRankHasTheEmbedding) {
  DecoderConfig gpt = Gpt();
  gpt.tied_head = true;
  for (const int choice : {0, 1, 2, 3}) {
    const int zero = choice % 2;
    DecoderTraining training = Megatron();
    training.overlap_sync = choice >= 2;
    const Parallel parallel = {.data = 4, .tensor = 2, .zero = zero};
    const LayerCost tied = DecoderCosts(gpt, training, parallel, Nodes()).back();
    const LayerCost untied = DecoderCosts(Gpt(), training, parallel, Nodes()).back();
    EXPECT_NEAR(tied.update_seconds + tied.sync_seconds,
                untied.update_seconds + untied.sync_seconds, 1e-12);
    const double table = 51200.0 / 2 * 1024;
    EXPECT_NEAR(tied.tied_update_seconds,
                untied.update_seconds * table / static_cast<double>(untied.parameters) +
                    untied.sync_seconds - tied.sync_seconds,
                1e-12);
    EXPECT_EQ(untied.tied_update_seconds, 0);
    // Megatron-LM sums whole fp32 gradients of it over both ranks, with ZeRO, too.
    EXPECT_EQ(tied.tied_gradient_bytes, 4 * 51200 / 2 * 1024);
    EXPECT_EQ(untied.tied_gradient_bytes, 0);
  }
}

TEST(DecoderCosts, SplitMasterWeightsAreTheWeightsAndWhatTheseLack) {
  DecoderTraining training = Megatron();
  const int64_t parameters = Block(training, {}).parameters;
  const auto bytes = [&](DType dtype, int zero) {
    training.dtype = dtype;
    return Block(training, {.data = 4, .zero = zero}).parameter_bytes;
  };
  EXPECT_EQ(bytes(DType::kBFloat16, 0), 18 * parameters);
  const double whole_update = Block(training, {}).update_seconds;
  training.master_weights = MasterWeights::kSplit;
  EXPECT_EQ(bytes(DType::kBFloat16, 0), 16 * parameters);
  EXPECT_EQ(bytes(DType::kBFloat16, 1), (2 + 4) * parameters + 10 * parameters / 4);
  EXPECT_EQ(bytes(DType::kBFloat16, 2), 2 * parameters + (10 + 4) * parameters / 4);
  EXPECT_LT(Block(training, {}).update_seconds, whole_update);
  EXPECT_EQ(MasterWeightsOf({Block(training, {})}), MasterWeights::kSplit);
  EXPECT_EQ(bytes(DType::kFloat32, 0), 16 * parameters);
  EXPECT_EQ(MasterWeightsOf({Block(training, {})}), MasterWeights::kWhole);
}

TEST(DecoderCosts, TensorParallelismDividesProductsAndAddsSums) {
  DecoderTraining training = Megatron();
  ClusterSpec cluster = Nodes();
  DeviceSpec& device = cluster.devices[0];
  device.product_half_size = device.kernel_overhead = 0;
  device.memory_bandwidth = 1e30;
  cluster.inside = {1e-6, 1e11};
  const LayerCost one = DecoderCosts(Gpt(), training, {}, cluster)[1];
  const LayerCost four = DecoderCosts(Gpt(), training, {.tensor = 4}, cluster)[1];
  const double sum =
      CollectiveSeconds(Collective::kAllReduce, 2.0 * 2 * 2048 * 1024, 4, cluster.inside);
  EXPECT_NEAR(four.forward_seconds, one.forward_seconds / 4 + 2 * sum, 1e-9);
  EXPECT_NEAR(four.input_grad_seconds, one.input_grad_seconds / 4 + 2 * sum, 1e-9);
  EXPECT_NEAR(four.weight_grad_seconds, one.weight_grad_seconds / 4, 1e-9);
  // The product FLOPs of a block: 24 b s h^2 with weights, 4 b s^2 h of attention, not halved.
  const double flops = 24.0 * 4096 * 1024 * 1024 + 4.0 * 2 * 2048 * 2048 * 1024;
  EXPECT_NEAR(one.forward_seconds, flops / (312e12 * device.product_efficiency), 1e-9);
}

TEST(DecoderCosts, SmallProductsRunSlower) {
  const DeviceSpec device = *BuiltInDevice("a100");
  const double large = device.ProductSeconds(DType::kBFloat16, 8192, 8192, 8192);
  const double narrow = device.ProductSeconds(DType::kBFloat16, 8192, 8192, 64);
  EXPECT_GT(narrow / large, 64.0 / 8192 * 1.5);
  EXPECT_GT(large, 2 * 8192.0 * 8192 * 8192 / 312e12);
}

TEST(DecoderCosts, ZeroSharesWhatReplicasWouldCopy) {
  const LayerCost none = Block(Megatron(), {.data = 8});
  const LayerCost one = Block(Megatron(), {.data = 8, .zero = 1});
  const LayerCost two = Block(Megatron(), {.data = 8, .zero = 2});
  const int64_t n = none.parameters;  // a multiple of 8
  EXPECT_EQ(none.parameter_bytes, 18 * n);
  EXPECT_EQ(one.parameter_bytes, 6 * n + 12 * n / 8);
  EXPECT_EQ(two.parameter_bytes, 2 * n + 16 * n / 8);
  EXPECT_DOUBLE_EQ(one.update_seconds, none.update_seconds / 8);
  EXPECT_LT(one.sync_seconds, none.sync_seconds);
}

TEST(DecoderCosts, GradientsAreSummedOverReplicas) {
  EXPECT_EQ(Block(Megatron(), {}).sync_seconds, 0);
  const ClusterSpec cluster = Nodes();
  const LayerCost wide = Block(Megatron(), {.data = 16});
  EXPECT_DOUBLE_EQ(wide.sync_seconds, CollectiveSeconds(Collective::kAllReduce,
                                                        4.0 * static_cast<double>(wide.parameters),
                                                        16, GroupLink(cluster, 16, 1)));
  DecoderTraining overlapped = Megatron();
  overlapped.overlap_sync = true;
  EXPECT_LT(Block(overlapped, {.data = 16}).sync_seconds, wide.sync_seconds);
}

TEST(DecoderCosts, SelectiveRecomputationCostsLessThanFull) {
  for (const bool flash : {false, true}) {
    DecoderTraining training = Megatron();
    training.kernels.flash_attention = flash;
    const LayerCost block = Block(training, {.tensor = 2});
    EXPECT_GT(block.restore_seconds, 0);
    EXPECT_LT(block.restore_seconds, block.forward_seconds);
    EXPECT_LT(block.saved_bytes[1], block.saved_bytes[0]);
  }
}

// For every preset, also with uneven degrees: no negative or absurd cost.
TEST(DecoderCosts, AreSoundForEveryModel) {
  for (const char* name :
       {"llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3"}) {
    const ModelSpec spec = *PresetModel(name);
    for (const int tensor : {1, 3, 8}) {
      DecoderTraining training;
      training.batch = {1, 4096};
      const auto costs =
          DecoderCosts(*spec.decoder(), training, {.data = 4, .tensor = tensor}, Nodes());
      EXPECT_TRUE(ValidateLayerCosts(costs).ok()) << name << " " << ValidateLayerCosts(costs);
      int64_t parameters = 0;
      for (const LayerCost& cost : costs) parameters += cost.parameters;
      EXPECT_GE(parameters * tensor, ParameterCount(spec));
    }
  }
}

}  // namespace
}  // namespace sluice
