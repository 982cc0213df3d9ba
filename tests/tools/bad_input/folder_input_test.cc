// What can be wrong with the folder of a model, whose weights `train` and `sample` both take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kWeights[] = "model.safetensors";
constexpr char kConfig[] = "config.json";

// The first `from` in `file` becomes `to`, of the same length in a file of weights, whose header has
// a length of its own; with no `from` the file loses its last bytes.
struct BadFolder {
  std::string name;
  std::string file;
  std::string from, to;
  std::vector<std::string> says;  // beside the file's name

  friend std::ostream& operator<<(std::ostream& out, const BadFolder& bad) {
    return out << bad.name;
  }
};

std::vector<BadFolder> BadFolders() {
  return {
      {"OtherTensor",
       kWeights,
       "layers.1.mlp.up_proj",
       "layers.1.mlp.xx_proj",
       {"model.layers.1.mlp.xx_proj.weight"}},
      {"OtherType",
       kWeights,
       "\"F32\"",
       "\"I32\"",
       {"model.embed_tokens.weight", "is I32, expected F32, F16 or BF16"}},
      {"OtherShape",
       kWeights,
       "[256,16]",
       "[16,256]",
       {"model.embed_tokens.weight", "has shape [16, 256], expected [256, 16]"}},
      {"Truncated", kWeights, "", "", {"truncated"}},
      {"TooFewTensors",
       kConfig,
       "\"num_hidden_layers\": 2",
       "\"num_hidden_layers\": 3",
       {"lacks 9 of ", "model.layers.2.input_layernorm.weight"}},
      {"TooManyTensors",
       kConfig,
       "\"num_hidden_layers\": 2",
       "\"num_hidden_layers\": 1",
       {"deeper model", "model.layers.1.input_layernorm.weight"}},
      {"FieldOfAWord",
       kConfig,
       "\"hidden_size\": 16",
       "\"hidden_size\": \"x\"",
       {"field 'hidden_size' is \"x\"", "a whole number"}},
      {"FieldOutOfRange",
       kConfig,
       "\"hidden_size\": 16",
       "\"hidden_size\": -3",
       {"field 'hidden_size' is -3", "1 to 262144"}},
      {"FieldNotSupported",
       kConfig,
       "\"silu\"",
       "\"relu\"",
       {"field 'hidden_act' is \"relu\"", "\"silu\" or"}},
  };
}

class BadFolderTest : public ::testing::TestWithParam<BadFolder> {
 protected:
  void SetUp() override {
    WriteText(folder_ / "text");
    WriteBytes(folder_ / "llama.json",
               R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 16,
                   "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
                   "max_position_embeddings": 16, "hidden_act": "silu"})");
    const ProcessResult made = Train(folder_ / "llama.json", "--save " + folder_ / "good");
    ASSERT_EQ(made.exit_code, kExitDone) << made.err;
    fs::copy(folder_ / "good/latest/", model_);
    for (const char* ours : {"/state.json", "/optimizer.safetensors"}) fs::remove(model_ + ours);
  }
  ProcessResult Train(const std::string& model, const std::string& more) const {
    return RunSluice(Words(absl::StrCat(
        "train --data ", folder_ / "text", " --bytes --model ", model,
        " --seq 16 --stages 2 --micro-batch-size 2 --micro-batches 2 --eval-micro-batches 1 "
        "--steps 1 --no-pin ",
        more)));
  }
  void Spoil(const BadFolder& bad) const {
    const std::string path = model_ + "/" + bad.file;
    std::string bytes = ReadBytes(path);
    if (bad.from.empty()) {
      bytes.resize(bytes.size() - 100);
    } else {
      const size_t at = bytes.find(bad.from);
      ASSERT_NE(at, std::string::npos) << bad.from;
      bytes.replace(at, bad.from.size(), bad.to);
    }
    WriteBytes(path, bytes);
  }
  void ExpectRefused(const ProcessResult& result) const {
    EXPECT_EQ(result.exit_code, kExitBadInput) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(model_ + "/"));
    for (const std::string& words : GetParam().says) EXPECT_THAT(result.err, HasSubstr(words));
  }

  TempFolder folder_;
  const std::string model_ = folder_ / "model";
};

TEST_P(BadFolderTest, IsRefusedInOneLineAndNothingIsSaved) {
  Spoil(GetParam());
  ExpectRefused(Train(model_, absl::StrCat("--init ", model_, " --save ", folder_ / "out")));
  EXPECT_FALSE(fs::exists(folder_ / "out/latest"));
  ExpectRefused(RunSluice(Words(absl::StrCat("sample -n 1 --prompt a --load ", model_))));
}

INSTANTIATE_TEST_SUITE_P(Folders, BadFolderTest, ::testing::ValuesIn(BadFolders()),
                         [](const auto& bad) { return bad.param.name; });

}  // namespace
}  // namespace sluice
