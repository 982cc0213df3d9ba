// The files that the planner reads and writes: plans, profiles, devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partitioner/costs/device.h"
#include "partitioner/costs/profile.h"
#include "partitioner/orders/custom_order.h"
#include "partitioner/planning/file/megatron_arguments.h"
#include "partitioner/planning/file/plan_file.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/question/plan_request.h"
#include "partitioner/planning/race/planner.h"
#include "tests/partitioner/random_chain.h"

namespace sluice {
namespace {

using testing::HasSubstr;

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> NamesOf(const CostTable& costs) {
  std::vector<std::string> names;
  for (const LayerCost& layer : costs.layers()) names.push_back(layer.name);
  return names;
}

struct SomePlan {
  SomePlan() : random(3), costs(*CostTable::Create(RandomLayers(random, 9))) {
    PlanRequest request;
    request.machines.costs = std::make_shared<const CostTable>(costs);
    request.devices = 3;
    request.micro_batches = 6;
    request.schedule = "1f1b";
    request.policies = {Recompute::kNone, Recompute::kFull};
    request.machines.memory_limit = 900;
    plan = *MakePlan(request);
    context.model = "mlp";
    context.layer_names = NamesOf(costs);
    context.spec = ModelSpec{"mlp", MlpConfig{{9, 8, 7, 6, 5, 4, 3, 2, 2, 2}}};
    context.micro_batch_size = 4;
    context.seq = 16;
    context.dtype = DType::kBFloat16;
    text = FormatPlan(plan, context);
  }
  Random random;
  CostTable costs;
  Plan plan;
  PlanContext context;
  std::string text;
};

TEST(PlanFile, IsReadBackAsItWasPlanned) {
  const SomePlan some;
  const absl::StatusOr<PlanFile> file = ParsePlan(some.text, "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->model, "mlp");
  EXPECT_EQ(file->schedule, some.plan.schedule);
  EXPECT_EQ(file->chunks, some.plan.chunks);
  EXPECT_EQ(file->devices, 3);
  EXPECT_EQ(file->micro_batches, 6);
  EXPECT_EQ(file->micro_batch_size, 4);
  EXPECT_EQ(file->seq, 16);
  EXPECT_EQ(file->dtype, DType::kBFloat16);
  EXPECT_EQ(file->assignment.partition, some.plan.partition());
  EXPECT_EQ(file->assignment.recompute, AssignmentOf(some.plan).recompute);
  EXPECT_EQ(file->step_seconds, some.plan.step_seconds);
  EXPECT_EQ(file->layer_count(), 9);
  EXPECT_EQ(file->spec->mlp()->widths, some.context.spec->mlp()->widths);
}

TEST(PlanFile, CountsTheDevicesOfOneReplica) {
  SomePlan some;
  some.context.data_parallel = 2;
  some.context.zero = 1;
  const absl::StatusOr<PlanFile> file = ParsePlan(FormatPlan(some.plan, some.context), "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->devices, 3);
  EXPECT_EQ(file->data_parallel, 2);
  EXPECT_EQ(file->zero, 1);
  EXPECT_EQ(file->micro_batches, 6);
}

TEST(PlanFile, SaysWhatRanksDoForEachOther) {
  SomePlan some;
  EXPECT_EQ(ParsePlan(some.text, "plan.json")->audit_every, 0);
  EXPECT_FALSE(ParsePlan(some.text, "plan.json")->mirror);
  some.context.mirror = true;
  some.context.audit_every = 7;
  some.context.attention = CudaAttention::kCudnn;
  some.plan.audit_seconds = 0.25;
  some.plan.audit_bytes = {1, 2, 3};
  const std::string text = FormatPlan(some.plan, some.context);
  const absl::StatusOr<PlanFile> file = ParsePlan(text, "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->mirror);
  EXPECT_EQ(file->attention, CudaAttention::kCudnn);
  EXPECT_EQ(file->audit_every, 7);
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["audit_seconds"], 0.25);
  EXPECT_EQ(json["stages"][1]["audit_bytes"], some.plan.audit_bytes[json["stages"][1]["rank"]]);
}

TEST(PlanFile, StagesMayHaveReplicasOfTheirOwn) {
  const SomePlan some;
  nlohmann::json json = nlohmann::json::parse(some.text);
  json["stages"][0]["replicas"] = 3;
  json["stages"][2]["replicas"] = 2;
  json["devices"] = 6;
  const absl::StatusOr<PlanFile> file = ParsePlan(json.dump(), "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->stage_replicas, (std::vector<int>{3, 1, 2}));
  EXPECT_EQ(file->data_parallel, 1);
  EXPECT_EQ(file->devices, 6);
}

// As PipeDream's optimiser says it: where to cut, and how many devices each stage has.
TEST(PlanFile, ForTheBottleneckAloneSaysNothingOfTheStep) {
  const absl::StatusOr<PlanFile> file = ParsePlan(
      R"({"model": "graph.txt", "devices": 3, "objective": "bottleneck", "stages": [
          {"stage": 0, "first_layer": 0, "last_layer": 2, "replicas": 2},
          {"stage": 1, "first_layer": 3, "last_layer": 3, "replicas": 1}]})",
      "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->says_step());
  EXPECT_EQ(file->stage_replicas, (std::vector<int>{2, 1}));
  EXPECT_EQ(FormatPartition(file->assignment.partition), "0-2,3");
}

TEST(PlanFile, StagesOfAGraphWithBranchesAreNoRanges) {
  const std::string begin = R"({"model": "graph.txt", "devices": 2, "schedule": "1f1b",
      "chunks": 1, "micro_batches": 4, "step_seconds": 1.5, "bubble": 0.25, "stages": [
      {"stage": 0, "rank": 0, "first_layer": null, "last_layer": null, "recompute": "none"},
      {"stage": 1, "rank": 1, "first_layer": )";
  const absl::StatusOr<PlanFile> file =
      ParsePlan(begin + R"(null, "last_layer": null, "recompute": "full"}]})", "plan.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->branches);
  EXPECT_TRUE(file->assignment.partition.empty());
  EXPECT_EQ(file->layer_count(), 0);
  EXPECT_EQ(file->assignment.recompute,
            (std::vector<Recompute>{Recompute::kNone, Recompute::kFull}));
  EXPECT_EQ(file->stage_ranks, (std::vector<int>{0, 1}));
  EXPECT_FALSE(ParsePlan(SomePlan().text, "plan.json")->branches);
  EXPECT_THAT(
      std::string(ParsePlan(begin + R"(2, "last_layer": 3, "recompute": "none"}]})", "plan.json")
                      .status()
                      .message()),
      HasSubstr("field 'stages[1].first_layer' and last_layer must be null"));
}

TEST(PlanFile, StagesAddUpToTheModelAndTokensToTheStep) {
  const SomePlan some;
  const nlohmann::json json = nlohmann::json::parse(some.text);
  int64_t parameters = 0, expected = 0;
  for (const auto& stage : json["stages"]) parameters += stage["parameters"].get<int64_t>();
  for (const LayerCost& layer : some.costs.layers()) expected += layer.parameters;
  EXPECT_EQ(parameters, expected);
  EXPECT_DOUBLE_EQ(json["tokens_per_second"].get<double>() * json["step_seconds"].get<double>(),
                   6 * 4 * 16);
}

// A damaged plan: `edit` changes one thing, the error names it.
void ExpectPlanError(const std::function<void(nlohmann::json*)>& edit, const char* message) {
  const SomePlan some;
  nlohmann::json json = nlohmann::json::parse(some.text);
  edit(&json);
  const absl::StatusOr<PlanFile> file = ParsePlan(json.dump(), "plan.json");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(message));
}

TEST(PlanFile, NamesTheFieldThatIsWrong) {
  using Json = nlohmann::json;
  ExpectPlanError([](Json* json) { json->erase("schedule"); },
                  "plan.json: field 'schedule' is missing");
  ExpectPlanError([](Json* json) { (*json)["micro_batches"] = 0; },
                  "field 'micro_batches' is 0; expected a whole number of at least 1");
  ExpectPlanError([](Json* json) { (*json)["micro_batches"] = 1e18; }, "field 'micro_batches'");
  ExpectPlanError([](Json* json) { (*json)["dtype"] = "fp8"; }, "field 'dtype' is 'fp8'");
  ExpectPlanError([](Json* json) { (*json)["stages"] = Json::array(); }, "field 'stages' must be");
  ExpectPlanError([](Json* json) { (*json)["stages"][1]["first_layer"] = 0; },
                  "field 'stages[1].first_layer' is 0; expected");
  ExpectPlanError([](Json* json) { (*json)["stages"][0]["first_layer"] = nullptr; },
                  "field 'stages[0].first_layer' is null; expected a whole number");
  ExpectPlanError([](Json* json) { (*json)["stages"][0]["last_layer"] = "x"; },
                  "field 'stages[0].last_layer' is \"x\"");
  // The stage after it is not compared with a layer number that no int can hold.
  ExpectPlanError([](Json* json) { (*json)["stages"][0]["last_layer"] = 2147483647; },
                  "field 'stages[0].last_layer' is 2147483647, which is too large");
  ExpectPlanError([](Json* json) { (*json)["stages"][0]["recompute"] = "some"; },
                  "field 'stages[0].recompute' is 'some'");
  ExpectPlanError([](Json* json) { (*json)["model_config"]["widths"].erase(0); },
                  "field 'stages' places 9 layers, the model has 8");
  ExpectPlanError([](Json* json) { (*json)["model_config"]["type"] = "rnn"; },
                  "field 'model_config.type' is 'rnn'");
  ExpectPlanError([](Json* json) { (*json)["devices"] = 2; }, "field 'stages' has 3 entries");
  ExpectPlanError([](Json* json) { (*json)["data_parallel"] = 2; },
                  "field 'data_parallel' is 2, which does not divide 3 devices");
  ExpectPlanError([](Json* json) { (*json)["data_parallel"] = 0; }, "field 'data_parallel'");
  ExpectPlanError([](Json* json) { (*json)["stages"][1]["replicas"] = 2; },
                  "field 'stages' have 4 replicas in all, for 3 devices");
  ExpectPlanError([](Json* json) { (*json)["stages"][1]["replicas"] = 0; },
                  "field 'stages[1].replicas' is 0");
  ExpectPlanError(
      [](Json* json) {
        (*json)["data_parallel"] = 3;
        (*json)["stages"][1]["replicas"] = 2;
      },
      "have different replicas");
  ExpectPlanError([](Json* json) { (*json)["zero"] = 3; }, "field 'zero' is 3");
  ExpectPlanError([](Json* json) { (*json)["audit"] = -1; }, "field 'audit' is -1");
  ExpectPlanError([](Json* json) { (*json)["tensor_parallel"] = 5; },
                  "field 'tensor_parallel' is 5, which does not divide");
}

TEST(PlanFile, NoTruncatedPlanIsTakenForAPlan) {
  const SomePlan some;
  for (size_t size = 0; size + 2 < some.text.size(); ++size) {
    EXPECT_FALSE(ParsePlan(some.text.substr(0, size), "plan.json").ok()) << size;
  }
}

// A plan of `names`, as many of them in each stage as `counts` says.
struct MegatronPlan {
  MegatronPlan(const std::vector<std::string>& names, const std::vector<int>& counts, int ranks) {
    context.layer_names = names;
    context.micro_batch_size = 2;
    context.seq = 4096;
    context.dtype = DType::kBFloat16;
    context.data_parallel = 3;
    plan.devices = ranks;
    plan.schedule = static_cast<int>(counts.size()) == ranks ? "1f1b" : "interleaved";
    plan.micro_batches = 4 * ranks;
    int layer = 0;
    for (const int count : counts) {
      PlanStage& stage = plan.stages.emplace_back();
      for (int i = 0; i < count; ++i) stage.layers.push_back(layer++);
    }
  }
  std::string Why() const {
    return std::string(FormatMegatronArguments(plan, context).status().message());
  }
  Plan plan;
  PlanContext context;
};

TEST(MegatronArguments, SayAllOfAPlan) {
  MegatronPlan some({"embedding", "block 0", "block 1", "block 2", "head"}, {2, 1, 2}, 3);
  EXPECT_EQ(*FormatMegatronArguments(some.plan, some.context),
            "--tensor-model-parallel-size 1\n"
            "--pipeline-model-parallel-size 3\n"
            "--pipeline-model-parallel-layout Et|t|tL\n"
            "--micro-batch-size 2\n"
            "--global-batch-size 72\n"
            "--seq-length 4096\n"
            "--bf16\n");
  some.context.tensor_parallel = 4;
  some.context.sequence_parallel = true;
  some.context.zero = 1;
  for (PlanStage& stage : some.plan.stages) stage.recompute = Recompute::kFull;
  const std::string all = *FormatMegatronArguments(some.plan, some.context);
  for (const char* line :
       {"--tensor-model-parallel-size 4\n--sequence-parallel\n", "\n--use-distributed-optimizer\n",
        "\n--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n"}) {
    EXPECT_THAT(all, HasSubstr(line));
  }
  EXPECT_THAT(all, Not(HasSubstr("--optimizer")));
  EXPECT_THAT(all, Not(HasSubstr("--overlap-grad-reduce")));
  some.context.zero = 0;
  some.context.optimizer = OptimizerKind::kSgd;
  some.context.overlap_sync = true;
  EXPECT_THAT(*FormatMegatronArguments(some.plan, some.context),
              HasSubstr("\n--optimizer sgd\n--overlap-grad-reduce\n"));
}

TEST(MegatronArguments, HaveBlocksThatPredictAhead) {
  const std::vector<std::string> names = {"embedding",       "block 0",         "block 1",
                                          "predict ahead 0", "predict ahead 1", "head"};
  const MegatronPlan two(names, {2, 1, 2, 1}, 2);
  const std::string arguments = *FormatMegatronArguments(two.plan, two.context);
  EXPECT_THAT(arguments, HasSubstr("layout Et|t|mm|L\n"));
  EXPECT_THAT(arguments, HasSubstr("--mtp-num-layers 2\n"));
  EXPECT_THAT(MegatronPlan(names, {3, 1, 2}, 3).Why(), HasSubstr("in one stage, and this plan"));
  EXPECT_THAT(
      MegatronPlan({"embedding", "predict ahead 0", "block 0", "head"}, {1, 1, 1, 1}, 2).Why(),
      HasSubstr("has them in stage 1 of 4 on 2 ranks"));
}

TEST(MegatronArguments, RefuseWhatItDoesNotHave) {
  const std::vector<std::string> names = {"embedding", "block 0", "head"};
  const auto why = [&](const auto& change) {
    MegatronPlan other(names, {1, 2}, 2);
    change(other);
    return other.Why();
  };
  EXPECT_THAT(why([](MegatronPlan& other) { other.plan.schedule = "zb-h1"; }),
              HasSubstr("no schedule zb-h1; it has 1f1b and interleaved"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.plan.schedule = kCustomOrder; }),
              HasSubstr("no schedule auto"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.plan.stages[1].recompute = Recompute::kFull; }),
              HasSubstr("one kind of recomputation"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.context.zero = 2; }), HasSubstr("--zero 1"));
  EXPECT_THAT(why([](MegatronPlan& other) {
                other.context.zero = 1;
                other.context.optimizer = OptimizerKind::kSgd;
              }),
              HasSubstr("has no SGD"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.context.mirror = true; }), HasSubstr("--mirror"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.context.audit_every = 5; }),
              HasSubstr("--audit"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.context.graph = true; }), HasSubstr("graphs"));
  EXPECT_THAT(why([](MegatronPlan& other) { other.context.layer_names[1] = "linear 0"; }),
              HasSubstr("not 'linear 0'"));
  MegatronPlan odd({"embedding", "block 0", "block 1", "head"}, {1, 1, 1, 1}, 2);
  odd.plan.micro_batches = 5;
  EXPECT_THAT(odd.Why(), HasSubstr("5 are no multiple"));
}

Profile SomeProfile() {
  Random random(5);
  Profile profile;
  profile.model = "char-gpt";
  DecoderConfig config;
  config.layers = 2;
  config.tied_head = true;
  profile.spec = ModelSpec{"char-gpt", config};
  profile.device = "cpu";
  profile.micro_batch_size = 4;
  profile.seq = 256;
  profile.dtype = DType::kBFloat16;
  profile.repetitions = 5;
  profile.link = {2e-6, 5e9};
  profile.layers = RandomLayers(random, 4);
  for (const LayerCost& layer : profile.layers) {
    LayerTimings timings;
    timings.forward = {layer.forward_seconds / 2, layer.forward_seconds};
    timings.input_grad = {layer.input_grad_seconds / 2, layer.input_grad_seconds};
    timings.weight_grad = {layer.weight_grad_seconds / 2, layer.weight_grad_seconds};
    timings.restore = {layer.restore_seconds / 2, layer.restore_seconds};
    timings.apart_input_grad = {layer.forward_seconds, 3 * layer.input_grad_seconds};
    timings.apart_weight_grad = {layer.restore_seconds, 2 * layer.weight_grad_seconds};
    profile.timings.push_back(timings);
  }
  profile.timings.back().update = {3, 4};
  profile.timings.back().tied_update = {2, 3};
  profile.timings.back().tied_sum = {0.5, 0.75};
  profile.layers.back().tied_gradient_bytes = 4096;
  return profile;
}

TEST(ProfileFile, IsReadBackUnchanged) {
  const Profile profile = SomeProfile();
  const std::string text = FormatProfile(profile);
  EXPECT_TRUE(IsProfile(text));
  const absl::StatusOr<Profile> again = ParseProfile(text, "profile.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatProfile(*again), text);
  ASSERT_EQ(again->layers.size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(again->layers[i].forward_seconds, profile.layers[i].forward_seconds);
    EXPECT_EQ(again->layers[i].saved_bytes, profile.layers[i].saved_bytes);
    EXPECT_EQ(again->layers[i].forward_workspace_bytes, profile.layers[i].forward_workspace_bytes);
    EXPECT_EQ(again->timings[i].forward.least, profile.timings[i].forward.least);
  }
  EXPECT_EQ(again->layers.back().update_seconds, 4);
  EXPECT_EQ(again->layers.back().tied_update_seconds, 3);
  EXPECT_EQ(again->layers.front().tied_update_seconds, 0);
  EXPECT_EQ(again->layers.back().tied_sum_seconds, 0.75);
  EXPECT_EQ(again->layers.back().tied_gradient_bytes, 4096);
  EXPECT_EQ(again->link.bandwidth, 5e9);
  EXPECT_EQ(again->spec->decoder()->layers, 2);
  EXPECT_TRUE(again->spec->decoder()->tied_head);
}

TEST(ProfileFile, WithoutWhatAnFNeedsItIsWhatAnyCallDoes) {
  nlohmann::json json = nlohmann::json::parse(FormatProfile(SomeProfile()));
  for (nlohmann::json& layer : json["layers"]) layer.erase("forward_workspace_bytes");
  const absl::StatusOr<Profile> profile = ParseProfile(json.dump(), "profile.json");
  ASSERT_TRUE(profile.ok()) << profile.status();
  for (const LayerCost& layer : profile->layers)
    EXPECT_EQ(layer.forward_workspace_bytes, layer.workspace_bytes);
}

TEST(ProfileFile, SaysWhoseStateItsBytesCount) {
  Profile profile = SomeProfile();
  for (const OptimizerKind optimizer : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    profile.optimizer = optimizer;
    EXPECT_EQ(ParseProfile(FormatProfile(profile), "p.json")->optimizer, optimizer);
  }
  nlohmann::json json = nlohmann::json::parse(FormatProfile(profile));
  EXPECT_EQ(json["optimizer"], "sgd");
  json["optimizer"] = "lion";
  EXPECT_THAT(std::string(ParseProfile(json.dump(), "p.json").status().message()),
              HasSubstr("field 'optimizer' is 'lion'; expected adamw or sgd"));
  json.erase("optimizer");
  EXPECT_EQ(ParseProfile(json.dump(), "p.json")->optimizer, std::nullopt);
}

TEST(ProfileFile, SaysWhichNormsUnlessTheyAreLayerNorms) {
  Profile profile = SomeProfile();
  EXPECT_FALSE(nlohmann::json::parse(FormatProfile(profile))["model_config"].contains("norm"));
  std::get<DecoderConfig>(profile.spec->config).norm = NormKind::kRms;
  nlohmann::json json = nlohmann::json::parse(FormatProfile(profile));
  EXPECT_EQ(json["model_config"]["norm"], "rms");
  EXPECT_EQ(ParseProfile(json.dump(), "p.json")->spec->decoder()->norm, NormKind::kRms);
  json["model_config"]["norm"] = "batch";
  EXPECT_THAT(std::string(ParseProfile(json.dump(), "p.json").status().message()),
              HasSubstr("field 'model_config.norm' is 'batch'; expected layer or rms"));
}

TEST(ProfileFile, HoldsAnyDecoderThatIsWritten) {
  Profile profile = SomeProfile();
  DecoderConfig config = LlamaDecoder("qwen2");
  config.layers = 2;
  config.kv_heads = 2;
  config.hidden = 96;
  config.qkv_bias = true;
  config.window = 8;
  config.global_blocks = {true, false};
  config.rope = {.theta = 1e6, .scaling = RopeScaling::kLinear, .factor = 4};
  profile.spec->config = config;
  nlohmann::json json = nlohmann::json::parse(FormatProfile(profile));
  EXPECT_EQ(json["model_config"]["config"]["model_type"], "qwen2");
  const auto again = ParseProfile(json.dump(), "p.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->spec->config == profile.spec->config);
  json["model_config"]["config"]["hidden_act"] = "relu";
  EXPECT_THAT(std::string(ParseProfile(json.dump(), "p.json").status().message()),
              HasSubstr("p.json: model_config.config: field 'hidden_act' is \"relu\""));
  json["model_config"]["config"] = {{"model_type", "mlp"}, {"widths", {4, 2}}};
  EXPECT_THAT(std::string(ParseProfile(json.dump(), "p.json").status().message()),
              HasSubstr("p.json: field 'model_config.config.model_type' is \"mlp\"; expected a"));
  json["model_config"].erase("config");
  EXPECT_EQ(ParseProfile(json.dump(), "p.json").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ProfileFile, SaysHowAGptStartsWhereItIsNotAsUsual) {
  Profile profile = SomeProfile();
  EXPECT_FALSE(
      nlohmann::json::parse(FormatProfile(profile))["model_config"].contains("initializer_range"));
  std::get<DecoderConfig>(profile.spec->config).initializer_range = 0.05f;
  EXPECT_EQ(ParseProfile(FormatProfile(profile), "p.json")->spec->decoder()->initializer_range,
            0.05f);
}

TEST(ProfileFile, SaysTheHeadsRowsAndTheAttentionWhereTheyAreNotAsUsual) {
  for (const DecoderConfig& usual : {DecoderConfig{.layers = 2}, LlamaDecoder("llama")}) {
    Profile profile = SomeProfile();
    DecoderConfig config = usual;
    config.layers = 2;
    config.head_rows = 48;
    profile.spec->config = config;
    profile.attention = CudaAttention::kCudnn;
    nlohmann::json json = nlohmann::json::parse(FormatProfile(profile));
    const absl::StatusOr<Profile> again = ParseProfile(json.dump(), "p.json");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->spec->decoder()->head_rows, 48);
    EXPECT_EQ(again->attention, CudaAttention::kCudnn);
    const auto error = [&] {
      return std::string(ParseProfile(json.dump(), "p.json").status().message());
    };
    json["model_config"]["head_rows"] = 0;
    EXPECT_THAT(error(), HasSubstr("field 'model_config.head_rows' is 0"));
    json["model_config"].erase("head_rows");
    EXPECT_EQ(ParseProfile(json.dump(), "p.json")->spec->decoder()->head_rows, 0);
    json["attention"] = "flash";
    EXPECT_THAT(error(), HasSubstr("field 'attention' is 'flash'; expected sluice or cudnn"));
    json.erase("attention");
    EXPECT_EQ(ParseProfile(json.dump(), "p.json")->attention, CudaAttention::kSluice);
  }
}

TEST(ProfileFile, NamesTheFieldThatIsWrong) {
  const nlohmann::json good = nlohmann::json::parse(FormatProfile(SomeProfile()));
  const auto error = [](const nlohmann::json& json) {
    const absl::StatusOr<Profile> profile = ParseProfile(json.dump(), "p.json");
    EXPECT_FALSE(profile.ok());
    return std::string(profile.status().message());
  };
  nlohmann::json json = good;
  json["layers"][2].erase("input_grad_seconds");
  EXPECT_THAT(error(json), HasSubstr("p.json: field 'layers[2].input_grad_seconds' is missing"));
  json = good;
  json["layers"][0]["forward_seconds"] = -1;
  EXPECT_THAT(error(json), HasSubstr("field 'layers[0].forward_seconds' is -1"));
  json = good;
  json["layers"][0]["forward_seconds"] = nullptr;  // how JSON writes NaN
  EXPECT_THAT(error(json), HasSubstr("field 'layers[0].forward_seconds' is null"));
  json = good;
  json["layers"][1]["saved_bytes"].erase("full");
  EXPECT_THAT(error(json), HasSubstr("field 'layers[1].saved_bytes.full' is missing"));
  json = good;
  json["layers"][3]["tied_update_seconds"] = 5;
  EXPECT_THAT(error(json), HasSubstr("field 'layers[3].tied_update_seconds' is 5; expected at most "
                                     "update_seconds, 4"));
  json = good;
  json["layers"][3]["tied_gradient_bytes"] = -1;
  EXPECT_THAT(error(json), HasSubstr("field 'layers[3].tied_gradient_bytes' is -1"));
  json = good;
  json["layers"][3]["workspace_bytes"] = 7;
  json["layers"][3]["forward_workspace_bytes"] = 8;
  EXPECT_THAT(error(json), HasSubstr("field 'layers[3].forward_workspace_bytes' is 8; expected at "
                                     "most 7"));
  json = good;
  json["version"] = 2;
  EXPECT_THAT(error(json), HasSubstr("field 'version'"));
  // Messages that take no finite time.
  json = good;
  json["link_latency"] = 1e308;
  EXPECT_THAT(error(json),
              HasSubstr("field 'link_latency' is 1e+308; expected a number of at most 1e+06"));
  json = good;
  json["link_bandwidth"] = 1e-300;
  EXPECT_THAT(error(json),
              HasSubstr("field 'link_bandwidth' is 1e-300; expected a number of at least 1"));
  EXPECT_FALSE(ParseProfile("[]", "p.json").ok());
  EXPECT_FALSE(ParseProfile("", "p.json").ok());
  EXPECT_FALSE(IsProfile("{\"model_type\": \"gpt2\"}"));
}

TEST(Device, BuiltInsAndFiles) {
  EXPECT_EQ(BuiltInDevice("h200")->memory_bytes, 141'000'000'000);
  EXPECT_GT(BuiltInDevice("h200")->bf16_flops, BuiltInDevice("a100")->bf16_flops);
  EXPECT_THAT(std::string(BuiltInDevice("tpu").status().message()),
              HasSubstr("a100, a100-40gb, h100, h200, b200"));
  const char* text =
      R"({"name":"x","fp32_flops":1e12,"bf16_flops":2e12,"memory_bandwidth":1e11,"link_latency":1e-6})";
  const absl::StatusOr<DeviceSpec> device = ParseDevice(text, "x.json");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->flops(DType::kBFloat16), 2e12);
  EXPECT_EQ(device->link.latency, 1e-6);
  EXPECT_TRUE(std::isinf(device->link.bandwidth));
  EXPECT_THAT(
      std::string(ParseDevice(R"({"name":"x","fp32_flops":0})", "x.json").status().message()),
      HasSubstr("x.json: field 'fp32_flops' is 0"));
  EXPECT_THAT(std::string(ParseDevice(R"({"nome":"x"})", "x.json").status().message()),
              HasSubstr("field 'nome' is not known"));
  EXPECT_EQ(device->product_efficiency, 1);  // the rates are sustained rates
}

// What the vendors print: rates with sparsity where they do (twice the dense ones), links in both
// directions together, and the racks and boards of Blackwell as a whole.
TEST(Device, HasTheRatesOfItsDataSheet) {
  struct Printed {
    const char* name;
    double sparse_bf16, fp32, memory_bandwidth, link;
    int devices;  // of which these are the sums
  };
  constexpr Printed kPrinted[] = {
      {"a100", 624e12, 19.5e12, 2.039e12, 600e9, 1},
      {"h100", 1979e12, 67e12, 3.35e12, 900e9, 1},
      {"b200", 36e15, 600e12, 64e12, 14.4e12, 8},
      {"gb200", 360e15, 5760e12, 576e12, 72 * 1.8e12, 72},
      {"mi300x", 2614.9e12, 163.4e12, 5.3e12, 128e9, 1},
      {"l40s", 733e12, 91.6e12, 864e9, 64e9, 1},
      {"l4", 242e12, 30.3e12, 300e9, 64e9, 1},
      {"rtx-4090", 330.4e12, 82.6e12, 1008e9, 64e9, 1},
  };
  for (const Printed& printed : kPrinted) {
    const absl::StatusOr<DeviceSpec> device = DataSheetDevice(printed.name);
    ASSERT_TRUE(device.ok()) << device.status();
    const auto is = [&](double value, double sum) {
      EXPECT_NEAR(value * printed.devices / sum, 1, 0.015) << printed.name;
    };
    is(2 * device->bf16_flops, printed.sparse_bf16);
    is(device->fp32_flops, printed.fp32);
    is(device->memory_bandwidth, printed.memory_bandwidth);
    is(2 * device->link.bandwidth, printed.link);
  }
}

TEST(Device, EfficienciesAreReadAndWritten) {
  for (const absl::string_view name : BuiltInDeviceNames()) {
    const absl::StatusOr<DeviceSpec> device = BuiltInDevice(name);
    ASSERT_TRUE(device.ok()) << name;
    const std::string text = DeviceToJson(*device).dump();
    const absl::StatusOr<DeviceSpec> again = ParseDevice(text, "again.json");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(DeviceToJson(*again).dump(), text);
    EXPECT_LT(again->product_efficiency, 1);
    EXPECT_EQ(DataSheetDevice(name)->product_efficiency, 1);
  }
  const auto error = [](const std::string& field) {
    const std::string text =
        R"({"name":"x","fp32_flops":1,"bf16_flops":1,"memory_bandwidth":1,)" + field + "}";
    return std::string(ParseDevice(text, "x.json").status().message());
  };
  EXPECT_THAT(error(R"("memory_efficiency":1.5)"), HasSubstr("field 'memory_efficiency' is 1.5"));
  EXPECT_THAT(error(R"("product_efficiency":0)"), HasSubstr("field 'product_efficiency' is 0"));
  EXPECT_THAT(error(R"("kernel_overhead":-1)"), HasSubstr("field 'kernel_overhead' is -1"));
  EXPECT_THAT(error(R"("memory_bytes":1e300)"), HasSubstr("field 'memory_bytes' is 1e+300"));
  // Numbers whose times would not be finite.
  EXPECT_THAT(
      error(R"("memory_efficiency":1e-300)"),
      HasSubstr("field 'memory_efficiency' is 1e-300; expected a number of at least 1e-06"));
  EXPECT_THAT(error(R"("product_half_size":1e308)"),
              HasSubstr("field 'product_half_size' is 1e+308; expected a number of at most 1e+09"));
  EXPECT_THAT(error(R"("kernel_overhead":1e308)"),
              HasSubstr("field 'kernel_overhead' is 1e+308; expected a number of at most 1e+06"));
  EXPECT_THAT(
      std::string(ParseDevice(R"({"name":"x","fp32_flops":1e-300})", "x.json").status().message()),
      HasSubstr("x.json: field 'fp32_flops' is 1e-300; expected a number of at least 1"));
}

}  // namespace
}  // namespace sluice
