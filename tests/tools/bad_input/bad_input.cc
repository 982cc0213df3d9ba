// Whatever is wrong with its input, `sluice` says so in one line and ends with the exit code that
// scripts rely on, within seconds.
#include "tests/tools/bad_input/bad_input.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/pipeline/checkpoint/forged_checkpoint.h"

namespace sluice {

TempFolder* BadInputTest::folder_ = nullptr;

namespace {

using ::testing::HasSubstr;

constexpr double kSeconds = 60;  // on a busy machine, with sanitizers; usually it takes 0.1

std::string Noise(size_t bytes) {
  std::string noise;
  for (size_t i = 0; i < bytes; ++i) noise += static_cast<char>(i * i * 31 >> 3U);
  return noise;
}

void FlipAByte(const std::string& path) {
  std::string bytes = ReadBytes(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  WriteBytes(path, bytes);
}

void Train(const TempFolder& at, const std::string& more) {
  const ProcessResult result =
      RunSluice(Words(absl::StrCat("train --data ", at / "text", " ", WithTinyRun(more))));
  ASSERT_EQ(result.exit_code, kExitDone) << result.err;
}

// A copy of the good checkpoint, with something else in one of its files.
void ForgeACopy(const TempFolder& at, const std::string& name, const std::string& file,
                const std::string& from, const std::string& to) {
  using std::filesystem::copy_options;
  const std::string copy = at / name;
  std::filesystem::copy(at / "good", copy, copy_options::recursive | copy_options::copy_symlinks);
  Forge(copy + "/latest", file, from, to);
}

// PipeDream profiles; lines 1 and 2 are nodes.
void WriteGraphs(const TempFolder& at) {
  const std::string costs = "backward_compute_time=2, activation_size=4e6, parameter_size=8e6\n";
  const auto node = [&costs](const char* name, const char* forward = "1") {
    return absl::StrCat(name, " -- Linear(4, 4) -- forward_compute_time=", forward, ", ", costs);
  };
  const std::string two = node("node1") + node("node2");
  WriteBytes(at / "graph.txt", two + "\tnode1 -- node2\n");
  WriteBytes(at / "edge.txt", two + "\tnode1 -- node7\n");
  WriteBytes(at / "arrow.txt", two + "\tnode1 -> node2\n");
  WriteBytes(at / "cycle.txt", two + "\tnode1 -- node2\n\tnode2 -- node1\n");
  WriteBytes(at / "edges.txt", two + "\tnode1 -- node2\n\tnode1 -- node2\n");
  WriteBytes(at / "negative.txt", node("node1") + node("node2", "-1"));
  WriteBytes(at / "nan.txt", node("node1", "nan"));
  WriteBytes(at / "nodes.txt", node("node1") + node("node1"));
  WriteBytes(at / "missing.txt",
             "node1 -- Linear(4, 4) -- forward_compute_time=1, backward_compute_time=2, "
             "activation_size=4\n");
  WriteBytes(at / "twice.json", R"({"model_type": "llama", "hidden_size": 4, "hidden_size": 8})");
  WriteBytes(at / "deep.json", R"({"model_type": )" + DeepJson(1'000'000) + "}");
  WriteBytes(at / "costs.json", "{\"F\":" + DeepJson() + "}");
  WriteBytes(at / "trace.json", DeepJson());
  WriteBytes(at / "cut.json", "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": ");
  WriteBytes(at / "heads.json",
             R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                 "num_attention_heads": -4})");
  WriteBytes(at / "device.json", R"({"name": "x", "fp32_flops": "fast"})");
  WriteBytes(at / "slow.json", R"({"name": "x", "fp32_flops": 1e12, "bf16_flops": 1e-300,
                 "memory_bytes": 1e11, "memory_bandwidth": 1e12})");
}

// Adapters, good and bad, of the good checkpoint; and tokens that a vocabulary of 300 has not.
void WriteAdapters(const TempFolder& at) {
  const std::string lora = " --steps 1 --lora r=2 --init " + at / "good/latest --save ";
  Train(at, lora + at / "adapter");
  Train(at, lora + at / "damaged_adapter");
  FlipAByte(at / "damaged_adapter/latest/adapter_model.safetensors");
  Train(at, " --dim 32 --steps 1 --save " + at / "wide");
  std::filesystem::create_directory(at / "ia3");
  WriteBytes(at / "ia3/adapter_model.safetensors",
             ReadBytes(at / "adapter/latest/adapter_model.safetensors"));
  WriteBytes(at / "ia3/adapter_config.json", R"({"peft_type": "IA3"})");
  std::string tokens(80, '\0');
  tokens[40] = static_cast<char>(400 & 0xff);
  tokens[41] = static_cast<char>(400 >> 8);
  WriteBytes(at / "tokens.bin", tokens);
  WriteBytes(at / "blank.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}\n");
  WriteBytes(at / "masked.jsonl", "{\"prompt\": \"In the beginning\", \"completion\": \"\"}\n");
}

}  // namespace

void BadInputTest::SetUpTestSuite() {
  folder_ = new TempFolder;
  const TempFolder& at = *folder_;
  WriteText(at / "text");
  WriteBytes(at / "train.bin", ReadBytes(at / "text"));
  WriteBytes(at / "lines.jsonl", "{\"text\": \"In the beginning\"}\n");
  WriteBytes(at / "completion.jsonl", R"({"prompt": "abababababab", "completion": "c"})");
  WriteBytes(at / "letters.json",
             R"({"model": {"vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}})");
  WriteBytes(at / "words.json", R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 16,
                 "n_embd": 16, "n_layer": 2, "n_head": 2})");
  WriteBytes(at / "llama.json", R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 64,
                 "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "max_position_embeddings": 16})");
  WriteBytes(at / "cluster.json", R"({
    "name": "two kinds",
    "devices": [{"device": "h100", "count": 16}, {"device": "l40s", "count": 8}],
    "devices_per_node": 8,
    "inside": {"bandwidth": 390e9, "latency": 34e-6},
    "between": {"bandwidth": 45e9, "latency": 20e-6}
  })");
  WriteBytes(at / "unknown.json", R"({"model_type": "mamba", "vocab_size": 256})");
  using std::filesystem::perms;
  WriteBytes(at / "known_secret", "a secret that every user can read\n");
  std::filesystem::permissions(at / "known_secret", perms::owner_read | perms::owner_write |
                                                        perms::group_read | perms::others_read);
  WriteBytes(at / "short_secret", "sesame\n");
  std::filesystem::permissions(at / "short_secret", perms::owner_read);
  WriteBytes(at / "empty", "");
  WriteBytes(at / "blank", "\n\n");
  WriteBytes(at / "short", "In the beg");
  std::filesystem::create_directory(at / "idx");
  WriteBytes(at / "idx/train-images-idx3-ubyte", Idx({8, 28, 28}, std::string(100, 'x')));
  WriteBytes(at / "idx/train-labels-idx1-ubyte", Idx({8}, std::string(8, '\1')));
  std::filesystem::create_directory(at / "images");
  WriteBytes(at / "images/train-images-idx3-ubyte", Idx({40, 4, 4}, Noise(640)));
  WriteBytes(at / "images/train-labels-idx1-ubyte", Idx({40}, std::string(40, '\1')));
  WriteBytes(at / "plan.json", R"({"model":"char-gpt","stages":[{"rank":)");
  WriteBytes(at / "other.json", R"({"model":"char-gpt","devices":"four"})");
  WriteBytes(at / "table.csv", "0F0,0F1\n1F0\n");
  WriteBytes(at / "config.json", R"({"model_type":"gpt2","n_layer":2,"n_embd":16})");
  WriteBytes(at / "weights.safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\":", 13));
  std::filesystem::create_directories(at / "shards");
  WriteBytes(at / "shards/model.safetensors.index.json",
             R"({"weight_map": {"wte.weight": "model-00001-of-00001.safetensors"}})");
  std::filesystem::create_directories(at / "elsewhere");
  WriteBytes(at / "elsewhere/model.safetensors.index.json",
             R"({"weight_map": {"wte.weight": "../weights.safetensors"}})");
  std::filesystem::create_directories(at / "deep_index");
  WriteBytes(at / "deep_index/model.safetensors.index.json",
             "{\"weight_map\": " + DeepJson() + "}");
  std::filesystem::create_directory(at / "pixels");
  WriteBytes(at / "pixels/train-images-idx3-ubyte", Idx({40, 28, 28}, Noise(size_t{40} * 28 * 28)));
  WriteBytes(at / "pixels/train-labels-idx1-ubyte", Idx({40}, std::string(40, '\1')));
  WriteGraphs(at);
  Train(at, " --steps 1 --save " + at / "good");
  Train(at, " --steps 1 --save " + at / "damaged");
  FlipAByte(at / "damaged/latest/model.safetensors");
  WriteAdapters(at);
  ForgeACopy(at, "deep_format", "state.json", "\"sluice checkpoint 1\"", DeepJson());
  ForgeACopy(at, "deep_more", "state.json", "\"more\": {", "\"more\": {\"a\": " + DeepJson());
  ForgeACopy(at, "deep_config", "config.json", "\"gpt2\"", DeepJson());
  const ProcessResult mlp =
      RunSluice(Words(absl::StrCat("train --model mlp --data ", at / "pixels",
                                   " --micro-batch-size 2 --steps 1 --save ", at / "mlp")));
  ASSERT_EQ(mlp.exit_code, kExitDone) << mlp.err;
}

void BadInputTest::TearDownTestSuite() {
  delete folder_;
  folder_ = nullptr;
}

namespace {

// Without the note about bf16, which a processor without bf16 gets.
std::string WithoutNote(const std::string& err) {
  return absl::StartsWith(err, "sluice: note: ") ? err.substr(err.find('\n') + 1) : err;
}

TEST_P(BadInputTest, IsNamedInOneLine) {
  const std::string arguments = absl::StrReplaceAll(GetParam().arguments, {{"@", folder_->path()}});
  const ProcessResult result = RunSluice(Words(arguments));
  EXPECT_EQ(result.signal, 0) << "crashed";
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.err;
  EXPECT_LT(result.seconds, kSeconds);
  EXPECT_EQ(result.err.rfind("sluice: ", 0), 0u) << result.err;
  const std::string message = WithoutNote(result.err);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << result.err;
  for (const std::string& words : GetParam().says) {
    EXPECT_THAT(result.err, HasSubstr(absl::StrReplaceAll(words, {{"@", folder_->path()}})));
  }
  for (const char* success : {"done", "saved", "weights ", "weights_hash"}) {
    EXPECT_EQ(result.out.find(success), std::string::npos) << result.out;
  }
  RecordProperty("message", result.err);
}

}  // namespace
}  // namespace sluice
