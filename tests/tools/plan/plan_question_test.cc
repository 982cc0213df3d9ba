#include "tools/plan/plan_question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "partitioner/planning/answer/answer.h"
#include "tools/plan/plan_table.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlanFlags FlagsFor(std::string model, std::string device) {
  PlanFlags flags;
  flags.model.model = std::move(model);
  flags.device = std::move(device);
  flags.devices = 4;
  return flags;
}

std::string MessageOf(const PlanFlags& flags) {
  return std::string(ReadQuestion(flags).status().message());
}

TEST(ReadQuestion, LeavesOpenWhatWasNotSaid) {
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(FlagsFor("gpt2", ""));
  ASSERT_TRUE(question.ok()) << question.status();
  ASSERT_NE(question->spec(), nullptr);
  EXPECT_EQ(question->spec()->name, "gpt2");
  EXPECT_TRUE(question->on_this_processor());
  EXPECT_TRUE(question->measures_processor());
  EXPECT_EQ(question->devices, 4);
  EXPECT_EQ(question->schedule, std::nullopt);
  EXPECT_EQ(question->chunks, std::nullopt);
  EXPECT_EQ(question->micro_batch_size, std::nullopt);
  EXPECT_FALSE(question->any_micro_batch_size);
  EXPECT_EQ(question->data_parallel, 1);
  EXPECT_EQ(question->policies.size(), 3u);
}

TEST(ReadQuestion, AutoIsAnyAndNumbersHaveUnits) {
  PlanFlags flags = FlagsFor("llama-3.1-8b", "h200");
  flags.schedule = "zbv";
  flags.data_parallel = flags.micro_batch_size = "auto";
  flags.tensor_parallel = "2";
  flags.memory = "80GiB";
  flags.latency = "5us";
  flags.gap = "1%";
  flags.partition = "0-10,11-33";
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  ASSERT_TRUE(question.ok()) << question.status();
  ASSERT_NE(question->spec(), nullptr);
  EXPECT_EQ(question->spec()->decoder()->family, "llama");
  EXPECT_EQ(question->schedule, "zbv");
  EXPECT_EQ(question->data_parallel, std::nullopt);
  EXPECT_TRUE(question->any_micro_batch_size);
  EXPECT_EQ(question->tensor_parallel, 2);
  EXPECT_FALSE(question->only_pipelines());
  EXPECT_EQ(question->memory, int64_t{80} << 30);
  EXPECT_DOUBLE_EQ(*question->latency, 5e-6);
  EXPECT_DOUBLE_EQ(question->gap, 0.01);
  EXPECT_EQ(FormatPartition(*question->partition), "0-10,11-33");
  EXPECT_EQ(question->device->name, "h200");
  EXPECT_FALSE(question->on_this_processor());
}

TEST(ReadQuestion, ListsTheModelsOrTheDevicesThatThereAre) {
  EXPECT_THAT(MessageOf(FlagsFor("gtp2", "h200")), HasSubstr("llama-3.1-8b"));
  const std::string device = MessageOf(FlagsFor("gpt2", "tpu"));
  EXPECT_THAT(device, HasSubstr("no device 'tpu'; there are: a100"));
  EXPECT_THAT(device, Not(HasSubstr("llama")));
}

TEST(ReadQuestion, SuggestsTheModelThatWasMeant) {
  EXPECT_THAT(MessageOf(FlagsFor("gtp2", "h200")),
              HasSubstr("no preset model 'gtp2', and no file or folder of that name; did you mean "
                        "'gpt2'? there are: gpt2"));
}

TEST(ReadQuestion, SaysOfAPathThatNothingIsThere) {
  for (const char* path : {"./no-qwen", "no-models/qwen", "no-models/qwen/", "/no/qwen.json"}) {
    const std::string message = MessageOf(FlagsFor(path, "h200"));
    EXPECT_THAT(message, HasSubstr(absl::StrCat("'", path, "': there is no such file or folder")));
    EXPECT_THAT(message, HasSubstr("expected a preset such as gpt2, or"));
  }
  const std::string folder = (std::filesystem::path(testing::TempDir()) / "no_config").string();
  std::filesystem::create_directories(folder);
  EXPECT_THAT(MessageOf(FlagsFor(folder, "h200")),
              HasSubstr(absl::StrCat("'", folder, "' has no config.json; expected")));
}

// Whatever has to be said of it, and whatever file in it says so.
TEST(ResolveModel, CallsAModelByTheNameThatWasGiven) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "some_experts";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << R"({"model_type": "mixtral", "num_hidden_layers": 2, "hidden_size": 64, )"
         R"("num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 256, )"
         R"("intermediate_size": 128, )"
         R"("max_position_embeddings": 64, "num_local_experts": 4, "num_experts_per_tok": 2})";
  for (const std::string& name : {folder.string(), (folder / "config.json").string()}) {
    const absl::StatusOr<ModelSpec> spec = ResolveModel({.model = name}, 0);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->name, name);
    EXPECT_THAT(std::string(ResolveTrainable({.model = name}, 0).status().message()),
                HasSubstr(absl::StrCat("model '", name, "' (mixtral) has a mixture of 4 experts")));
    EXPECT_EQ(ReadQuestion(FlagsFor(name, "h200"))->model, name);
  }
}

// A processor is measured by the layers of the model, so there must be some.
TEST(ReadQuestion, MeasuresAProcessorOnlyForModelsThatTrain) {
  EXPECT_FALSE(ReadQuestion(FlagsFor("mixtral-8x7b", ""))->measures_processor());
  EXPECT_TRUE(ReadQuestion(FlagsFor("mlp", ""))->measures_processor());
}

TEST(ReadQuestion, ShapesOnlyPresetsThatTrain) {
  PlanFlags flags = FlagsFor("gpt2", "h200");
  flags.model.layers = 3;
  flags.seq = 77;
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  ASSERT_TRUE(question.ok()) << question.status();
  EXPECT_EQ(question->spec()->decoder()->layers, 3);
  EXPECT_EQ(question->spec()->max_seq(), 77);
  flags.model.model = "mixtral-8x7b";
  EXPECT_THAT(MessageOf(flags),
              HasSubstr("shape a preset of a decoder that trains; 'mixtral-8x7b' is not one"));
}

TEST(ReadQuestion, NamesTheFlagThatIsWrong) {
  PlanFlags flags = FlagsFor("gpt2", "h200");
  flags.devices = 1 << 20;
  EXPECT_THAT(MessageOf(flags), HasSubstr("--devices is 1048576"));
  flags = FlagsFor("gpt2", "h200");
  flags.cluster = "cluster.json";
  EXPECT_THAT(MessageOf(flags), HasSubstr("leave out --device"));
  flags = FlagsFor("gpt2", "h200");
  flags.tensor_parallel = "some";
  EXPECT_THAT(MessageOf(flags), HasSubstr("--tensor-parallel is 'some'"));
  flags = FlagsFor("gpt2", "h200");
  flags.partition = "0-3,5-13";
  EXPECT_THAT(MessageOf(flags), HasSubstr("5-13"));
}

TEST(ReadQuestion, TakesAGraphWithoutADevice) {
  const std::string file =
      (std::filesystem::path(testing::TempDir()) / "plan_question_graph.txt").string();
  std::ofstream(file) << "node1 -- A -- forward_compute_time=1, backward_compute_time=2, "
                         "activation_size=8, parameter_size=4\n";
  PlanFlags flags = FlagsFor(file, "");
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  ASSERT_TRUE(question.ok()) << question.status();
  ASSERT_NE(question->graph(), nullptr);
  EXPECT_EQ(question->graph()->nodes.size(), 1u);
  // What holds of a graph anyway may be said.
  flags.recompute = "none";
  flags.dtype = "";
  EXPECT_TRUE(ReadQuestion(flags).ok());
  flags.dtype = "bf16";
  EXPECT_THAT(MessageOf(flags), HasSubstr("--dtype has no effect on"));
  flags.dtype = "";
  flags.micro_batch_size = "4";
  EXPECT_THAT(MessageOf(flags), HasSubstr("give --micro-batches"));
  flags.what_if = true;
  EXPECT_EQ(ReadQuestion(flags).status().code(), absl::StatusCode::kUnimplemented);
}

// While variants are searched for, the progress line says which, so that its numbers are not taken
// for those of the plan.
TEST(AnswerQuestion, ProgressNamesTheVariant) {
  PlanFlags flags = FlagsFor("gpt2", "h200");
  flags.schedule = "1f1b";
  flags.data_parallel = "auto";
  flags.micro_batch_size = "1";
  flags.global_batch = 8;
  flags.what_if = true;
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  ASSERT_TRUE(question.ok()) << question.status();
  std::vector<std::string> shown;
  const absl::StatusOr<PlanAnswer> answer =
      AnswerQuestion(*question, [&shown](const PlanProgress& progress) {
        if (shown.empty() || shown.back() != progress.what) shown.push_back(progress.what);
      });
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::vector<std::string> expected = {""};
  for (const PlanVariant& variant : *answer->variants.what_if) expected.push_back(variant.what);
  EXPECT_EQ(shown, expected);
}

TEST(FormatPlanTable, WhatAVariantIsBeginsBelowARowThatLeavesNoRoom) {
  PlanFlags flags = FlagsFor("gpt2", "h200");
  flags.schedule = "1f1b";
  flags.micro_batch_size = "1";
  flags.global_batch = 8;
  const absl::StatusOr<PlanQuestion> question = ReadQuestion(flags);
  ASSERT_TRUE(question.ok()) << question.status();
  absl::StatusOr<PlanAnswer> answer = AnswerQuestion(*question, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  PlanVariant more, fewer;
  more.what = "10 GiB more memory per device";
  more.description = "zbv, 2 chunks; pipeline 5, 32 micro-batches of 2";
  more.seconds = answer->plan.objective_seconds();
  more.bytes = int64_t{11} << 30;
  fewer.what = "1 fewer device";
  fewer.why = "no plan fits into the memory of the devices that are left";
  answer->variants.what_if = {more, fewer};
  const std::string narrow = FormatPlanTable(*answer, 80, /*colour=*/false);
  EXPECT_THAT(narrow, HasSubstr("+0.0 %   11.0 GiB\n        " + more.description + "\n"));
  EXPECT_THAT(narrow,
              HasSubstr("    1 fewer device                 no plan fits into the memory of "
                        "the devices\n                                   that are left\n"));
  const std::string wide = FormatPlanTable(*answer, 120, /*colour=*/false);
  EXPECT_THAT(wide, HasSubstr("+0.0 %   11.0 GiB  " + more.description + "\n"));
}

}  // namespace
}  // namespace sluice
