// What one rank pays where a decoder is trained in part, against counts that are written out from
// the shapes of its maps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/layers/adapted_layers.h"
#include "models/spec/presets.h"
#include "partitioner/costs/collectives.h"
#include "partitioner/costs/decoder_cost.h"
#include "partitioner/planning/sources/source.h"

namespace sluice {
namespace {

constexpr int64_t kSamples = 2, kSeq = 24, kRows = kSamples * kSeq;
constexpr int64_t kRank = 4;
constexpr int64_t kBf16 = 2;

// A map as it is named, and whether the ranks that share a layer have slices of its outputs.
struct Map {
  std::string target;
  int64_t in = 0, out = 0;
  bool bias = false, outputs = true;
};

struct Family {
  DecoderConfig config;
  int64_t query_width = 0;  // of all heads
  int64_t norms = 0;        // parameters of a block's
  std::vector<Map> maps;    // of a block
};

Family Llama() {
  DecoderConfig config = LlamaDecoder("llama");
  config.layers = 2;
  config.dim = 64;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = 16;
  config.hidden = 96;
  config.vocab = 256;
  config.max_seq = kSeq;
  return {config,
          128,
          int64_t{2} * 64,
          {{"q_proj", 64, 128},
           {"k_proj", 64, 64},
           {"v_proj", 64, 64},
           {"o_proj", 128, 64, false, false},
           {"gate_proj", 64, 96},
           {"up_proj", 64, 96},
           {"down_proj", 96, 64, false, false}}};
}

Family Gpt2() {
  DecoderConfig config;
  config.layers = 2;
  config.dim = 64;
  config.heads = 8;
  config.vocab = 256;
  config.max_seq = kSeq;
  return {config,
          64,
          int64_t{4} * 64,
          {{"attn.c_attn", 64, 192, true},
           {"attn.c_proj", 64, 64, true, false},
           {"c_fc", 64, 256, true},
           {"mlp.c_proj", 256, 64, true, false}}};
}

struct Case {
  Family family;
  int64_t tensor = 1;
  bool sequence = false;
  std::string name;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [name, family] : {std::pair{"llama", Llama()}, std::pair{"gpt2", Gpt2()}}) {
    for (const int64_t tensor : {1, 2, 4}) {
      for (const bool sequence : {false, true}) {
        if (sequence && tensor == 1) continue;
        cases.push_back({family, tensor, sequence,
                         absl::StrCat(name, " over ", tensor, sequence ? ", by tokens" : "")});
      }
    }
  }
  return cases;
}

// Products at one rate whatever their shape, and nothing else that takes time but messages.
ClusterSpec EvenCluster() {
  ClusterSpec cluster = UniformCluster(*BuiltInDevice("a100"), 8);
  DeviceSpec& device = cluster.devices[0];
  device.product_half_size = device.kernel_overhead = 0;
  device.memory_bandwidth = 1e30;
  cluster.inside = {1e-6, 1e11};
  cluster.between = {1e-5, 25e9};
  cluster.cards_per_node = 4;
  return cluster;
}

DecoderTraining Training(const Family& family, const Adaptation& adaptation) {
  DecoderTraining training;
  training.batch = {kSamples, kSeq};
  training.kernels.flash_attention = false;
  training.trained = TrainedPartsOf(family.config, adaptation);
  return training;
}

Parallel ParallelOf(const Case& one, int data = 1, int zero = 0) {
  return {
      .data = data, .tensor = static_cast<int>(one.tensor), .sequence = one.sequence, .zero = zero};
}

LayerCost BlockOf(const Case& one, const Adaptation& adaptation, int data = 1, int zero = 0) {
  return DecoderCosts(one.family.config, Training(one.family, adaptation),
                      ParallelOf(one, data, zero), EvenCluster())[1];
}

Adaptation AllLinear() { return {.lora = Lora{.rank = kRank}, .base_dtype = DType::kBFloat16}; }

int64_t FrozenOfRank(const Case& one) {
  int64_t sum = one.family.norms;
  for (const Map& map : one.family.maps) {
    sum += map.in * map.out / one.tensor;
    if (map.bias) sum += map.outputs ? map.out / one.tensor : map.out;
  }
  return sum;
}

int64_t AdaptersOfRank(const Case& one) {
  int64_t sum = 0;
  for (const Map& map : one.family.maps) {
    sum += map.outputs ? kRank * map.in + kRank * map.out / one.tensor
                       : kRank * map.in / one.tensor + kRank * map.out;
  }
  return sum;
}

TEST(AdaptedCosts, OfLoraHoldFrozenWeightsOnceAndAdaptersWithTheirState) {
  for (const Case& one : Cases()) {
    const LayerCost cost = BlockOf(one, AllLinear());
    const int64_t adapters = AdaptersOfRank(one);
    EXPECT_EQ(cost.parameters, adapters) << one.name;
    EXPECT_EQ(cost.parameter_bytes, kBf16 * FrozenOfRank(one) + 18 * adapters) << one.name;
    // 6 bytes with ZeRO 1 and 2 with ZeRO 2 stay whole, and only of what is trained.
    EXPECT_EQ(BlockOf(one, AllLinear(), 4, 1).parameter_bytes,
              kBf16 * FrozenOfRank(one) + 6 * adapters + 12 * adapters / 4)
        << one.name;
    EXPECT_EQ(BlockOf(one, AllLinear(), 4, 2).parameter_bytes,
              kBf16 * FrozenOfRank(one) + 2 * adapters + 16 * adapters / 4)
        << one.name;
    Adaptation whole_floats = AllLinear();
    DecoderTraining training = Training(one.family, whole_floats);
    training.base_dtype = DType::kFloat32;
    EXPECT_EQ(DecoderCosts(one.family.config, training, ParallelOf(one), EvenCluster())[1]
                  .parameter_bytes,
              4 * FrozenOfRank(one) + 18 * adapters)
        << one.name;
  }
}

// Multiply-adds of a rank's maps, of their adapters, and of attention.
struct Work {
  double maps = 0, adapters = 0, attention = 0;
};

Work WorkOf(const Case& one) {
  const auto n = static_cast<double>(one.tensor);
  const double own_rows = static_cast<double>(kRows) / (one.sequence ? n : 1);
  const auto rows = static_cast<double>(kRows), r = static_cast<double>(kRank);
  Work work;
  for (const Map& map : one.family.maps) {
    const auto in = static_cast<double>(map.in), out = static_cast<double>(map.out);
    work.maps += rows * in * out / n;
    work.adapters += map.outputs ? own_rows * r * in + rows * r * out / n
                                 : rows * r * in / n + own_rows * r * out;
  }
  work.attention = 2.0 * kSamples * kSeq * kSeq * static_cast<double>(one.family.query_width) / n;
  return work;
}

// Passes over u = A x that F and I of a rank make: an all-reduce is two.
struct Passes {
  int forward = 0, input_grad = 0;
};

Passes PassesOf(const Case& one) {
  Passes passes;
  for (const Map& map : one.family.maps) {
    passes.forward += one.sequence ? 1 : map.outputs ? 0 : 2;
    passes.input_grad += one.sequence ? 1 : map.outputs ? 2 : 0;
  }
  return passes;
}

TEST(AdaptedCosts, OfLoraHaveTheProductsAndMessagesOfARank) {
  const ClusterSpec cluster = EvenCluster();
  const double rate = 312e12 * cluster.devices[0].product_efficiency;
  for (const Case& one : Cases()) {
    const LayerCost cost = BlockOf(one, AllLinear());
    const Work work = WorkOf(one);
    const auto ranks = static_cast<int>(one.tensor);
    const double wide = CollectiveSeconds(
        Collective::kAllReduce, static_cast<double>(kRows * one.family.config.dim * kBf16), ranks,
        cluster.inside);
    const double pass = CollectiveSeconds(
        Collective::kAllGather, static_cast<double>(kRows * kRank * kBf16), ranks, cluster.inside);
    const Passes passes = PassesOf(one);
    const double forward = 2 * (work.maps + work.adapters + work.attention) / rate;
    const double input_grad = 2 * (work.maps + work.adapters + 2 * work.attention) / rate;
    EXPECT_NEAR(cost.forward_seconds, forward + 2 * wide + passes.forward * pass, 1e-6 * forward)
        << one.name;
    EXPECT_NEAR(cost.input_grad_seconds, input_grad + 2 * wide + passes.input_grad * pass,
                1e-6 * input_grad)
        << one.name;
    // Frozen maps have no weight gradients.
    const double weight_grad = 2 * work.adapters / rate;
    EXPECT_NEAR(cost.weight_grad_seconds, weight_grad, 1e-6 * weight_grad) << one.name;
  }
}

TEST(AdaptedCosts, ReplicasSumTheGradientsOfWhatIsTrained) {
  const ClusterSpec cluster = EvenCluster();
  for (const Case& one : Cases()) {
    const auto ranks = static_cast<int>(one.tensor);
    const Link link = GroupLink(cluster, 16, ranks);
    const auto adapters = static_cast<double>(AdaptersOfRank(one));
    // With a slice of the tokens, a rank has a part of the gradients of what is whole on each.
    double whole = 0;
    for (const Map& map : one.family.maps)
      whole += static_cast<double>(kRank * (map.outputs ? map.in : map.out));
    const double slices =
        one.sequence ? CollectiveSeconds(Collective::kAllReduce, 4 * whole, ranks, cluster.inside)
                     : 0;
    EXPECT_DOUBLE_EQ(BlockOf(one, AllLinear(), 16).sync_seconds,
                     CollectiveSeconds(Collective::kAllReduce, 4 * adapters, 16, link) + slices)
        << one.name;
    EXPECT_DOUBLE_EQ(BlockOf(one, AllLinear(), 16, 1).sync_seconds,
                     CollectiveSeconds(Collective::kReduceScatter, 4 * adapters, 16, link) +
                         CollectiveSeconds(Collective::kAllGather, 2 * adapters, 16, link) + slices)
        << one.name;
  }
}

TEST(AdaptedCosts, LayersWithoutAdaptersTakeNoTimeToUpdateAndSum) {
  const Case one = {Llama(), 2, false, "llama"};
  const auto costs = DecoderCosts(one.family.config, Training(one.family, AllLinear()),
                                  ParallelOf(one, 4), EvenCluster());
  for (const LayerCost* cost : {&costs.front(), &costs.back()}) {
    EXPECT_EQ(cost->parameters, 0) << cost->name;
    EXPECT_EQ(cost->weight_grad_seconds, 0) << cost->name;
    EXPECT_EQ(cost->update_seconds, 0) << cost->name;
    EXPECT_EQ(cost->sync_seconds, 0) << cost->name;
  }
  EXPECT_EQ(costs.front().parameter_bytes, kBf16 * 256 / 2 * 64);
  EXPECT_EQ(costs.back().parameter_bytes, kBf16 * (256 / 2 * 64 + 64));
}

// u is kept, and a map's input where W of its adapter reads it.
TEST(AdaptedCosts, KeepWhatTheAdaptersRead) {
  for (const Case& one : Cases()) {
    if (one.family.config.family != "llama") continue;
    const int64_t parts = one.sequence ? one.tensor : 1;
    const int64_t n = one.tensor;
    const int64_t u = kRows / parts * kRank * kBf16;
    const int64_t whole = BlockOf(one, {}).saved_bytes[0];
    EXPECT_EQ(BlockOf(one, AllLinear()).saved_bytes[0], whole + 7 * u) << one.name;

    Adaptation query = AllLinear();
    query.lora->targets = {"q_proj"};
    // The inputs of o_proj, of gate_proj and up_proj, and of down_proj.
    const int64_t unread = kRows * kBf16 * (128 / n + 64 / parts + 96 / n);
    EXPECT_EQ(BlockOf(one, query).saved_bytes[0], whole + u - unread) << one.name;
    EXPECT_EQ(BlockOf(one, query).parameters, kRank * (64 + 128 / n)) << one.name;

    Adaptation dropped = AllLinear();
    dropped.lora->dropout = 0.1;
    // Each adapter has its own dropped-out input and a byte of mask per element.
    const int64_t inputs = int64_t{5} * 64 / parts + 128 / n + 96 / n;
    EXPECT_EQ(BlockOf(one, dropped).saved_bytes[0],
              whole + 7 * u - unread - kRows * kBf16 * 64 / parts + kRows * inputs * (kBf16 + 1))
        << one.name;
  }
}

TEST(AdaptedCosts, KeepTheOutputOfFlashAttentionForItsOwnBackward) {
  const Case one = {Llama(), 2, false, "llama"};
  Adaptation query = AllLinear();
  query.lora->targets = {"q_proj"};
  const auto saved = [&](const Adaptation& adaptation) {
    DecoderTraining training = Training(one.family, adaptation);
    training.kernels.flash_attention = true;
    return DecoderCosts(one.family.config, training, ParallelOf(one), EvenCluster())[1]
        .saved_bytes[0];
  };
  EXPECT_EQ(saved(query), saved({}) + kRows * kRank * kBf16 - kRows * kBf16 * (64 + 96 / 2));
}

TEST(AdaptedCosts, FrozenLayersHaveNoWeightGradientsAndNoState) {
  for (const Case& one : Cases()) {
    const bool gpt2 = one.family.config.family == "gpt2";
    const Adaptation frozen = {.freeze = {gpt2 ? "transformer.h.0.*" : "model.layers.0.*"},
                               .base_dtype = DType::kBFloat16};
    const auto costs = DecoderCosts(one.family.config, Training(one.family, frozen),
                                    ParallelOf(one, 4), EvenCluster());
    const LayerCost whole = BlockOf(one, {}, 4);
    EXPECT_EQ(costs[1].parameters, 0) << one.name;
    EXPECT_EQ(costs[1].parameter_bytes, kBf16 * whole.parameters) << one.name;
    EXPECT_EQ(costs[1].weight_grad_seconds, 0) << one.name;
    EXPECT_EQ(costs[1].sync_seconds, 0) << one.name;
    EXPECT_DOUBLE_EQ(costs[1].forward_seconds, whole.forward_seconds) << one.name;
    EXPECT_DOUBLE_EQ(costs[1].input_grad_seconds, whole.input_grad_seconds) << one.name;
    EXPECT_EQ(costs[2].parameters, whole.parameters) << one.name;
    EXPECT_EQ(costs[2].parameter_bytes, whole.parameter_bytes) << one.name;
    EXPECT_DOUBLE_EQ(costs[2].weight_grad_seconds, whole.weight_grad_seconds) << one.name;
    EXPECT_DOUBLE_EQ(costs[2].sync_seconds, whole.sync_seconds) << one.name;
  }
}

TEST(AdaptedCosts, AFrozenTiedTableIsHeldOnceMoreByAHeadWithoutState) {
  Case one = {Gpt2(), 2, false, "gpt2"};
  one.family.config.tied_head = true;
  const auto head = [&](const Adaptation& adaptation) {
    return DecoderCosts(one.family.config, Training(one.family, adaptation), ParallelOf(one),
                        EvenCluster())
        .back();
  };
  EXPECT_EQ(head({}).tied_bytes, 18 * 128 * 64);
  EXPECT_EQ(head(AllLinear()).tied_bytes, 2 * 128 * 64);
  EXPECT_EQ(head({.freeze = {"transformer.w?e.weight"}}).tied_bytes, 2 * 128 * 64);
  EXPECT_EQ(head({.freeze = {"transformer.w?e.weight"}}).parameters, 2 * 64);
  // What is frozen has no gradient to swap.
  EXPECT_EQ(head({}).tied_gradient_bytes, 4 * 128 * 64);
  EXPECT_EQ(head(AllLinear()).tied_gradient_bytes, 0);
}

PlanQuestion Question(const char* preset, const Adaptation& adaptation) {
  PlanQuestion question;
  question.model = preset;
  question.subject = *PresetModel(preset);
  question.cluster = EvenCluster();
  question.devices = 8;
  question.data_parallel = question.tensor_parallel = std::nullopt;
  question.adaptation = adaptation;
  return question;
}

TEST(AdaptedPlans, OfAClusterArePricedWithWhatIsTrained) {
  const PlanQuestion lora = Question("llama-3.1-8b", AllLinear());
  const PlanQuestion whole = Question("llama-3.1-8b", {});
  const auto lora_source = MakeSource(lora), whole_source = MakeSource(whole);
  ASSERT_TRUE(lora_source.ok()) << lora_source.status();
  ASSERT_TRUE(whole_source.ok()) << whole_source.status();
  EXPECT_FALSE(lora_source->runs_here);
  PlanSetting setting;
  setting.data = 2;
  setting.tensor = 4;
  setting.micro_batches = 8;
  const auto adapted = lora_source->price(setting), all = whole_source->price(setting);
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  ASSERT_TRUE(all.ok()) << all.status();
  // q and k, v: 4096 in, 4096 and 1024 out; o: 4096 in and out; gate, up and down: 14336 wide.
  const int64_t r = kRank, n = 4, columns = 4096 + 2 * 1024 + 2 * 14336;
  const int64_t adapters = r * 5 * 4096 + r * columns / n + r * (4096 + 14336) / n + 2 * r * 4096;
  const LayerCost& block = adapted->costs->layers()[1];
  EXPECT_EQ(block.parameters, adapters);
  EXPECT_EQ(block.parameter_bytes, 18 * adapters + kBf16 * (all->costs->layers()[1].parameters));
  EXPECT_DOUBLE_EQ(block.sync_seconds,
                   CollectiveSeconds(Collective::kAllReduce, 4.0 * static_cast<double>(adapters), 2,
                                     GroupLink(EvenCluster(), 2, 4)));
}

TEST(AdaptedPlans, NameWhatCannotBeTrainedSo) {
  Adaptation nothing = AllLinear();
  nothing.lora->targets = {"nothing"};
  const auto message = [](const char* preset, const Adaptation& adaptation) {
    const PlanQuestion question = Question(preset, adaptation);
    return std::string(MakeSource(question).status().message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message("llama-3.1-8b", nothing), HasSubstr("--lora targets=nothing: no linear map"));
  EXPECT_THAT(message("llama-3.1-8b", {.freeze = {"nothing"}}),
              HasSubstr("--freeze nothing names no parameter"));
  EXPECT_THAT(message("gpt2", {.freeze = {"lm_head.*"}}),
              HasSubstr("--freeze lm_head.* has no effect: lm_head.weight is tied, and trained or "
                        "frozen with transformer.wte.weight; name that instead"));
  EXPECT_EQ(message("llama-3.1-8b", {.freeze = {"lm_head.*"}}), "");
  EXPECT_EQ(message("gpt2", {.freeze = {"*w*e.weight"}}), "");
  EXPECT_THAT(message("llama-3.1-8b", {.freeze = {"*"}}), HasSubstr("nothing is left to train"));
  EXPECT_THAT(message("gpt2", {.freeze = {"transformer.wte*"}}), HasSubstr("name both"));
  EXPECT_THAT(message("mixtral-8x7b", AllLinear()), HasSubstr("models that sluice trains"));
}

}  // namespace
}  // namespace sluice
