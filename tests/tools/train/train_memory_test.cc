// The memory that `sluice plan` predicts is the memory that `sluice train` then takes.
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "models/spec/head_blocks.h"
#include "tests/sanitizers.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// The peak memory of any process that this one has started, in bytes.
int64_t LargestResidentSize() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  return int64_t{usage.ru_maxrss} << 10U;
}

// [rank]: the peak in the plan of `file`.
std::vector<int64_t> PromisedBytes(const std::string& file, size_t ranks) {
  std::vector<int64_t> bytes(ranks);
  const Json plan = Json::parse(ReadBytes(file), nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(plan.is_discarded());
  for (const Json& stage : plan.value("stages", Json::array()))
    bytes.at(stage.at("rank").get<size_t>()) = stage.at("peak_bytes").get<int64_t>();
  return bytes;
}

TEST(TrainMemory, IsWhatThePlanSaid) {
  const TempFolder folder;
  WriteText(folder / "text");
  const std::string file = folder / "plan.json";
  const ProcessResult planned = RunSluice(
      Words(absl::StrCat("plan char-gpt --devices 2 --device cpu --memory 4GiB --dtype fp32 --seq "
                         "64 --micro-batch-size 2 --micro-batches 4 --format json -o ",
                         file)));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  const std::vector<int64_t> promised = PromisedBytes(file, 2);
  const int64_t sum = std::accumulate(promised.begin(), promised.end(), int64_t{0});
  // A sanitizer needs memory beside all other memory, so a process takes more than it allocates.
  if (!kSanitized) {
    ASSERT_LT(LargestResidentSize(), sum / 2) << "planning must not hide what training takes";
  }

  const ProcessResult trained =
      RunSluice(Words(absl::StrCat("train --json --no-pin --steps 2 --eval-micro-batches 1 --data ",
                                   folder / "text", " --plan ", file)));
  ASSERT_EQ(trained.exit_code, kExitDone) << trained.err;
  const std::vector<std::string> lines = absl::StrSplit(trained.out, '\n');
  const Json step = Json::parse(lines.front(), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(step.is_object()) << trained.out;
  EXPECT_EQ(step.value("arena_bytes", Json()), Json(promised));
  EXPECT_EQ(step.value("peak_bytes", Json()), Json(promised));

  // Beside the arenas a process has its program, its libraries and their memory; a part of the
  // arenas may never be used.
  if (kSanitized) return;
  constexpr int64_t kBeside = int64_t{256} << 20U;
  EXPECT_GT(LargestResidentSize(), sum * 3 / 4);
  EXPECT_LT(LargestResidentSize(), sum + kBeside);
}

// Adapters, frozen weights, and samples of several documents, in several schedules.
TEST(TrainMemory, IsWhatThePlanSaidOfWhatIsTrained) {
  const TempFolder folder;
  WriteText(folder / "text");
  std::ofstream(folder / "lines.jsonl") << R"({"text": "ab"}
{"text": "bab"}
{"text": "aabb"}
)";
  std::ofstream(folder / "tokenizer.json")
      << R"({"model": {"vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}})";
  const std::string file = folder / "plan.json";
  for (const char* flags :
       {"--lora r=4 --dtype bf16", "--lora r=4,targets=c_attn --dtype fp32 --schedule zb-h1",
        "--lora r=4 --dtype bf16 --base-dtype fp32 --chunks 2",
        "--freeze transformer.h.0.*,*wte*,*wpe* --dtype bf16 --schedule zb-h1",
        "--dtype fp32 --head-rows 16", "--dtype bf16 --head-rows 20 --schedule zb-h1 --tied",
        "--dtype fp32 --vocab 3 --pack", "--lora r=4 --dtype bf16 --devices 4 --data-parallel 2",
        "--dtype bf16 --master-weights split --schedule zbv --tied",
        "--lora r=4 --dtype bf16 --master-weights split --devices 4 --data-parallel 2",
        "--lora r=4 --dtype bf16 --vocab 3 --pack --schedule gpipe"}) {
    SCOPED_TRACE(flags);
    const ProcessResult planned = RunSluice(Words(absl::StrCat(
        "plan char-gpt --layers 4 --dim 32 --heads 2 "
        "--device cpu --memory 1GiB --seq 32 "
        "--micro-batch-size 2 --micro-batches 4 --format json -o ",
        file, absl::StrContains(flags, "--devices") ? "" : " --devices 2", " ", flags)));
    ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
    const bool packed = absl::StrContains(flags, "--pack");
    const ProcessResult trained = RunSluice(Words(absl::StrCat(
        "train --json --no-pin --steps 1 --validation 0 --data ",
        folder / (packed ? "lines.jsonl" : "text"),
        packed ? absl::StrCat(" --tokenizer ", folder.path()) : "", " --plan ", file)));
    ASSERT_EQ(trained.exit_code, kExitDone) << trained.err;
    const std::vector<std::string> lines = absl::StrSplit(trained.out, '\n');
    const Json step = Json::parse(lines.front(), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(step.is_object()) << trained.out;
    std::vector<int64_t> promised = PromisedBytes(file, 2);
    if (absl::StrContains(flags, "--data-parallel 2"))  // replicas are alike
      promised.insert(promised.end(), {promised[0], promised[1]});
    EXPECT_EQ(step.value("arena_bytes", Json()), Json(promised));
  }
  const ProcessResult other =
      RunSluice(Words(absl::StrCat("train --data ", folder / "text", " --lora r=5 --plan ", file)));
  EXPECT_EQ(other.exit_code, kExitBadInput);
  EXPECT_TRUE(absl::StrContains(other.err, "the plan is for lora r=4")) << other.err;
}

// Qwen3's vocabulary, whose logits exist for one block of rows at a time: the arena of a whole run
// is smaller than the logits of one micro-batch would be.
TEST(TrainMemory, IsLessThanTheLogitsOfALargeVocabulary) {
  constexpr int64_t kVocab = 151'936, kRows = int64_t{16} * 64;
  constexpr auto kWholeLogits = kRows * kVocab * static_cast<int64_t>(sizeof(float));
  static_assert(kRows * kVocab > kProcessorHead.whole);
  const TempFolder folder;
  WriteText(folder / "text");
  WriteBytes(folder / "config.json",
             absl::StrCat(R"({"model_type": "qwen3", "vocab_size": )", kVocab,
                          R"(, "hidden_size": 32, "intermediate_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
      "max_position_embeddings": 64, "tie_word_embeddings": true})"));
  const std::string file = folder / "plan.json";
  std::vector<Json> bits_of;
  for (const size_t stages : {1, 2}) {
    const ProcessResult planned = RunSluice(Words(absl::StrCat(
        "plan ", folder.path(), " --devices ", stages, " --device cpu --memory 2GiB --dtype fp32 ",
        "--seq 64 --micro-batch-size 16 --micro-batches 2 --format json -o ", file)));
    ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
    const ProcessResult trained =
        RunSluice(Words(absl::StrCat("train --json --no-pin --bytes --validation 0 --steps ",
                                     Trials(2, 1), " --data ", folder / "text", " --plan ", file)));
    ASSERT_EQ(trained.exit_code, kExitDone) << trained.err;
    const std::vector<int64_t> promised = PromisedBytes(file, stages);
    Json bits = Json::array({LastLine(trained.out)["weights_hash"]});
    for (const absl::string_view line : absl::StrSplit(trained.out, '\n', absl::SkipEmpty())) {
      const Json step = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!step.contains("loss_hex")) continue;
      bits.push_back(step["loss_hex"]);
      EXPECT_EQ(step["arena_bytes"], Json(promised));
    }
    for (const int64_t bytes : promised) EXPECT_LT(bytes, kWholeLogits);
    EXPECT_EQ(bits.size(), 1 + Trials(2, 1));
    bits_of.push_back(std::move(bits));
  }
  EXPECT_EQ(bits_of[0], bits_of[1]);
}

}  // namespace
}  // namespace sluice
