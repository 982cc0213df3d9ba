// Saved weights: where runs and samples start from them, and who else reads them.

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "tests/built_files.h"
#include "tests/shared_folder.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(TrainCommandTest, StartsFromSavedWeightsOnAnyNumberOfStages) {
  const Json saved = Summary("--steps 2 --save " + folder_ / "out");
  for (const char* stages : {"1", "2", "3", "4"}) {
    const Json started =
        Summary(absl::StrCat("--steps 0 --stages ", stages, " --init ", folder_ / "out/latest"));
    EXPECT_EQ(started["weights_hash"], saved["weights_hash"]) << stages;
  }
}

// Who gives a folder for its weights learns that they are taken by another flag.
TEST_F(TrainCommandTest, AModelWhoseWeightsAreNotTakenIsNoted) {
  Summary("--steps 1 --save " + folder_ / "out");
  const std::string model = folder_ / "out/latest";
  const auto said = [&](const std::string& flags) {
    const ProcessResult run = RunSluice(
        Words(absl::StrCat("train --data ", folder_ / "text", " --seq 16 --steps 2 ", flags)));
    EXPECT_EQ(run.exit_code, kExitDone) << run.err;
    return run.err;
  };
  const std::string advice = absl::StrCat("for those in ", model, " add --init ", model);
  EXPECT_THAT(said("--model " + model), HasSubstr(advice));
  EXPECT_THAT(said(absl::StrCat("--model ", model, "/config.json")), HasSubstr(advice));
  EXPECT_EQ(said(absl::StrCat("--model ", model, " --init ", model)), "");
  const std::string other = folder_ / "other";
  EXPECT_THAT(said(absl::StrCat("--model ", model, " --save ", other)), HasSubstr(advice));
  EXPECT_EQ(said("--resume " + other), "");
  std::filesystem::remove(model + "/model.safetensors");
  EXPECT_EQ(said("--model " + model), "");
  // Only an adapter is saved, which is of no use without the weights that it was trained beside.
  EXPECT_THAT(said(absl::StrCat("--model ", model, " --lora r=2")),
              HasSubstr(model + " has no weights, and the adapter is one of random weights"));
}

TEST_F(TrainCommandTest, TiedWeightsStartOnAnyNumberOfStages) {
  const Json saved = Summary("--tied --steps 2 --save " + folder_ / "out");
  for (const char* stages : {"1", "3"}) {
    const Json started = Summary(
        absl::StrCat("--tied --steps 0 --stages ", stages, " --init ", folder_ / "out/latest"));
    EXPECT_EQ(started["weights_hash"], saved["weights_hash"]) << stages;
  }
  EXPECT_THAT(Run("--steps 1 --init " + folder_ / "out/latest").err,
              HasSubstr("lm_head.weight; its head is tied"));
}

TEST_F(TrainCommandTest, RmsNormsAreTrainedSavedResumedAndSampled) {
  const std::string rms = "--norm rms --steps ";
  const Json saved = Summary(rms + "2 --save " + folder_ / "out");
  EXPECT_EQ(Summary(rms + "2 --stages 4 --schedule zb-h1")["weights_hash"], saved["weights_hash"]);
  EXPECT_NE(Summary("--steps 2")["final_loss"], saved["final_loss"]);
  EXPECT_EQ(Summary(rms + "3 --stages 1 --resume " + folder_ / "out")["weights_hash"],
            Summary(rms + "3")["weights_hash"]);
  EXPECT_THAT(Run("--norm layer --steps 3 --resume " + folder_ / "out").err,
              HasSubstr("--norm (saved rms, given layer)"));
  EXPECT_THAT(Run("--steps 1 --init " + folder_ / "out/latest").err, HasSubstr("--norm rms"));
  const ProcessResult sample =
      RunSluice(Words(absl::StrCat("sample -n 4 --prompt And --load ", folder_ / "out")));
  EXPECT_EQ(sample.exit_code, kExitDone) << sample.err;
}

// The run computes whole windows, score a piece at a time; in bf16 also with tables that are bf16.
TEST_F(TrainCommandTest, ScoreHasTheLossOfTheEvaluation) {
  for (const auto& [dtype, tolerance] : {std::pair("fp32", 1e-5), std::pair("bf16", 2e-3)}) {
    const std::string out = absl::StrCat(folder_ / "out_", dtype);
    const Json run =
        Summary(absl::StrCat("--steps 20 --lr 1e-2 --eval-micro-batches 1000 --dtype ", dtype,
                             " --validation ", folder_ / "text", " --save ", out));
    std::vector<std::string> printed;
    for (const char* stages : {"1", "2", "3"}) {
      const ProcessResult score = RunSluice(
          Words(absl::StrCat("score --load ", out, " --data ", folder_ / "text", " --seq ", 16,
                             " --dtype ", dtype, " --json --stages ", stages)));
      ASSERT_EQ(score.exit_code, kExitDone) << score.err;
      printed.push_back(score.out);
    }
    EXPECT_EQ(printed[1], printed[0]);
    EXPECT_EQ(printed[2], printed[0]);
    EXPECT_NEAR(Json::parse(printed[0])["loss"].get<double>(), run["eval_loss"].get<double>(),
                tolerance)
        << dtype;
  }
}

TEST_F(TrainCommandTest, SamplesTheSameTextFromTheSameSeed) {
  Summary("--steps 20 --lr 1e-2 --save " + folder_ / "out");
  const auto sample = [this](const std::string& more) {
    const ProcessResult result =
        RunSluice(Words(absl::StrCat("sample --load ", folder_ / "out", " -n 40 --json ", more)));
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    return Json::parse(result.out);
  };
  const Json one = sample("--prompt And --seed 1");
  EXPECT_EQ(one["tokens"].size(), 40u);  // past the 16 that the model sees at once
  EXPECT_EQ(one["tokens"], sample("--prompt And --seed 1 --threads 2")["tokens"]);
  EXPECT_NE(one["tokens"], sample("--prompt And --seed 2")["tokens"]);
  EXPECT_EQ(sample("")["prompt_tokens"], Json::array({'\n'}));
  WriteBytes(folder_ / "prompts", "An\r\n");
  EXPECT_EQ(sample("--prompts " + folder_ / "prompts")["prompt_tokens"], Json::array({'A', 'n'}));
  EXPECT_EQ(sample("--temperature 0 --seed 1")["tokens"],
            sample("--temperature 0 --seed 2")["tokens"]);
  // The text form is the prompt and the same text.
  const ProcessResult text = RunSluice(
      Words(absl::StrCat("sample --load ", folder_ / "out", " -n 40 --prompt And --seed 1")));
  EXPECT_EQ(text.out, absl::StrCat("And", one["text"].get<std::string>(), "\n"));
}

TEST_F(TrainCommandTest, EachOfSeveralPromptsHasItsOwnText) {
  Summary("--steps 1 --save " + folder_ / "out");
  WriteBytes(folder_ / "out/latest/tokenizer.json", kThreeWords);
  const auto texts = [&](const std::string& prompts) {
    const ProcessResult result =
        RunSluice(Words(absl::StrCat("sample --load ", folder_ / "out", " --json -n 8 ", prompts)));
    EXPECT_EQ(result.exit_code, kExitDone) << result.signal << result.err;
    std::vector<std::string> found;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      found.push_back(Json::parse(line)["text"]);
    }
    return found;
  };
  const std::vector<std::string> together = texts("--prompt And --prompt An --prompt A");
  ASSERT_EQ(together.size(), 3);
  EXPECT_EQ(texts("--prompt And"), std::vector<std::string>{together[0]});
  EXPECT_NE(together[0], "");
}

// The weights of the byte `byte` in a model's file become so large that its norm overflows.
void SpoilByte(const std::string& file, char byte) {
  std::string bytes = ReadBytes(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const Json wte = Json::parse(bytes.substr(sizeof(length), length))["transformer.wte.weight"];
  const std::vector<float> row(wte["shape"][1].get<size_t>(), 3e38f);
  const size_t at = sizeof(length) + length + wte["data_offsets"][0].get<size_t>() +
                    static_cast<size_t>(byte) * row.size() * sizeof(float);
  std::memcpy(&bytes[at], row.data(), row.size() * sizeof(float));
  WriteBytes(file, bytes);
}

// Weights, training losses and gradients are finite; what is evaluated is not.
TEST_F(TrainCommandTest, AnEvaluationThatIsNotFiniteEndsTheRun) {
  namespace fs = std::filesystem;
  Summary("--steps 1 --save " + folder_ / "first");
  const std::string model = folder_ / "first/latest/model.safetensors";
  SpoilByte(model, 'Z');
  std::string other;
  for (int i = 0; i < 20; ++i) other += "And Z is no letter of the text. ";
  WriteBytes(folder_ / "other", other);
  for (const char* stages : {"1", "2"}) {
    for (const char* dtype : {"fp32", "bf16"}) {
      const std::string saved = absl::StrCat(folder_ / "saved", stages, dtype);
      const ProcessResult result = Run(absl::StrCat(
          "--steps 4 --eval-every 2 --stages ", stages, " --dtype ", dtype, " --init ", model,
          " --validation ", folder_ / "other", " --save-every 1 --save ", saved));
      EXPECT_EQ(result.exit_code, kExitBadInput);
      EXPECT_THAT(result.err, HasSubstr("after step 2 the validation loss is "));
      EXPECT_THAT(result.err, HasSubstr("first in the output of layer 1 (block 0), stage 0"));
      EXPECT_THAT(result.err, HasSubstr("the weights themselves are finite"));
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat("the newest good checkpoint is ", saved,
                                                     "/step-00000002")));
      EXPECT_FALSE(fs::exists(saved + "/step-00000003"));
    }
  }
}

// 2^32 more than a token's id is not that id.
TEST_F(TrainCommandTest, AnEndThatIsNoTokenIsRefused) {
  Summary(absl::StrCat("--steps 1 --save ", folder_ / "out"));
  const std::string sample =
      absl::StrCat("sample -n 4 --temperature 0 --tokens 65 --load ", folder_ / "out");
  const std::string config = folder_ / "out/latest/generation_config.json";
  for (const char* id : {"4294967296", "[1, 18446744073709551615]", "1.0", "true", "\"1\""}) {
    WriteBytes(config, absl::StrCat("{\"eos_token_id\": ", id, "}"));
    const ProcessResult result = RunSluice(Words(sample));
    EXPECT_EQ(result.exit_code, kExitBadInput) << id;
    EXPECT_THAT(result.err, HasSubstr("field 'eos_token_id' is ")) << id;
  }
  for (const char* id : {"-1", "null", "[]", "2147483647"}) {
    WriteBytes(config, absl::StrCat("{\"eos_token_id\": ", id, "}"));
    EXPECT_EQ(RunSluice(Words(sample)).exit_code, kExitDone) << id;
  }
}

// A text that was read with a tokenizer does not make a model of bytes.
TEST_F(TrainCommandTest, SamplesTheMostLikelyOfAllWords) {
  const std::string tokenizer =
      (SourceFolder() / "tests/models/tokens/fixtures/llama2.json").string();
  Summary(absl::StrCat("--steps 30 --lr 1e-2 --vocab 430 --tokenizer ", tokenizer, " --save ",
                       folder_ / "out"));
  const std::string file = folder_ / "logits.json";
  const std::string load =
      absl::StrCat("sample --load ", folder_ / "out", " --temperature 0 --json --tokens ");
  int words = 0;
  for (const char* prompt : {"388", "388,5,300", "410,2", "1,1,388"}) {
    EXPECT_EQ(RunSluice(Words(absl::StrCat(load, prompt, " -n 0 --logits ", file))).exit_code,
              kExitDone);
    const Json all = Json::parse(ReadBytes(file))["logits"];
    const auto logits = all.back().get<std::vector<double>>();
    const auto most = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const ProcessResult one = RunSluice(Words(absl::StrCat(load, prompt, " -n 1")));
    EXPECT_EQ(Json::parse(one.out)["tokens"], Json::array({most})) << one.err;
    words += most >= 256 ? 1 : 0;
  }
  EXPECT_GT(words, 0);
}

// Who gives tokens needs no tokenizer, so one that cannot be read is in nobody's way.
TEST_F(TrainCommandTest, TokensNeedNoTokenizer) {
  Summary("--steps 1 --save " + folder_ / "out");
  const std::string model = folder_ / "model";
  std::filesystem::copy(folder_ / "out/latest/", model);
  for (const char* ours : {"/state.json", "/optimizer.safetensors"}) {
    std::filesystem::remove(model + ours);
  }
  WriteBytes(model + "/tokenizer.json", "{\"model\": 1}");
  struct Row {
    std::string command;
    bool reads_text;
  };
  for (const Row& row : std::vector<Row>{{"sample -n 2 --tokens 65,110", false},
                                         {"sample -n 2 --json --tokens 65,110", false},
                                         {"score --tokens 65,110", false},
                                         {"sample -n 2 --prompt An", true},
                                         {"score --data README.md", true},
                                         {"chat", true}}) {
    const ProcessResult result = RunSluice(Words(absl::StrCat(row.command, " --load ", model)));
    EXPECT_EQ(result.exit_code, row.reads_text ? kExitBadInput : kExitDone)
        << row.command << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(row.reads_text ? model + "/tokenizer.json" : ""));
  }
}

// A folder as MODEL and as weights: its tokenizer's files come back byte for byte and its
// config.json field for field, but for the type of the weights; also from a run that is resumed
// where the folder is gone.
TEST_F(TrainCommandTest, AFolderIsAModelWhoseFilesAreKept) {
  namespace fs = std::filesystem;
  const Json saved = Summary("--steps 2 --save " + folder_ / "first");
  const std::string model = folder_ / "model";
  fs::copy(folder_ / "first/latest/", model);
  for (const char* ours : {"/state.json", "/optimizer.safetensors"}) fs::remove(model + ours);
  auto config = nlohmann::ordered_json::parse(ReadBytes(model + "/config.json"));
  config["torch_dtype"] = "bfloat16";
  config["of_somebody_else"] = {1e-05, 2, "\u00e9"};
  WriteBytes(model + "/config.json", config.dump());
  config["torch_dtype"] = "float32";
  const auto saved_config = [](const std::string& folder) {
    return nlohmann::ordered_json::parse(ReadBytes(folder + "/config.json")).dump();
  };
  const std::string names[] = {"tokenizer.json", "vocab.json", "generation_config.json"};
  for (const std::string& name : names) WriteBytes(absl::StrCat(model, "/", name), name + "\xff");
  WriteBytes(model + "/README.md", "not copied");

  const std::string common =
      absl::StrCat("train --data ", folder_ / "text", " --model ", model,
                   " --bytes --micro-batch-size 2 --micro-batches 2 --no-pin",
                   " --eval-micro-batches 1 --json --stages 2 --save ");
  const auto run = [&](const std::string& more) {
    const ProcessResult result = RunSluice(Words(common + more));
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    return LastLine(result.out);
  };
  const Json started = run(folder_ / "out" + " --steps 0 --init " + model);
  EXPECT_EQ(started["weights_hash"], saved["weights_hash"]);
  run(folder_ / "out" + " --steps 1 --resume " + folder_ / "out");
  const std::string latest = folder_ / "out/latest/";
  EXPECT_EQ(saved_config(latest), config.dump());
  for (const std::string& name : names) EXPECT_EQ(ReadBytes(latest + name), name + "\xff");
  EXPECT_FALSE(fs::exists(latest + "README.md"));
  // The step folder is all that a run needs to go on.
  fs::rename(folder_ / "out", folder_ / "moved");
  fs::remove_all(model);
  const ProcessResult moved = RunSluice(
      Words(absl::StrCat("train --data ", folder_ / "text", " --model ", folder_ / "moved/latest/",
                         " --bytes --micro-batch-size 2 --micro-batches 2 --no-pin "
                         "--eval-micro-batches 1 --steps 2 --save ",
                         folder_ / "on", " --resume ", folder_ / "moved")));
  EXPECT_EQ(moved.exit_code, kExitDone) << moved.err;
  EXPECT_EQ(saved_config(folder_ / "on/latest"), config.dump());
  EXPECT_EQ(ReadBytes(folder_ / "on/latest/tokenizer.json"), "tokenizer.json\xff");
}

TEST(HuggingFace, TransformersGivesTheSameLogits) {
  constexpr int kNoTransformers = 77;
  const char* const python = std::getenv("SLUICE_PEER_PYTHON");
  const int status =
      std::system(absl::StrCat(python != nullptr ? python : "python3", " ", SourceFolder().string(),
                               "/tests/peers/hf_parity.py ", SluiceProgram())
                      .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoTransformers) GTEST_SKIP() << "needs Python with transformers";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sluice
