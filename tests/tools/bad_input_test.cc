// Whatever is wrong with what it is given, `sluice` says so in one line and ends with the exit code
// that scripts rely on, within seconds.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/pipeline/checkpoint/forged_checkpoint.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr double kSeconds = 60;  // of a crowded machine, with sanitizers; mostly it is 0.1

struct BadInput {
  std::string name;
  std::string arguments;  // @ stands for the folder with the files below
  int exit_code = kExitBadInput;
  std::vector<std::string> says = {};

  friend std::ostream& operator<<(std::ostream& out, const BadInput& input) {
    return out << input.arguments;
  }
};

class BadInputTest : public ::testing::TestWithParam<BadInput> {
 protected:
  // Good and bad files that the runs are given.
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    const TempFolder& at = *folder_;
    WriteText(at / "text");
    WriteBytes(at / "train.bin", ReadBytes(at / "text"));
    WriteBytes(at / "lines.jsonl", "{\"text\": \"In the beginning\"}\n");
    WriteBytes(at / "words.json", R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 16,
                   "n_embd": 16, "n_layer": 2, "n_head": 2})");
    WriteBytes(at / "empty", "");
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
    std::filesystem::create_directory(at / "pixels");
    WriteBytes(at / "pixels/train-images-idx3-ubyte",
               Idx({40, 28, 28}, Noise(size_t{40} * 28 * 28)));
    WriteBytes(at / "pixels/train-labels-idx1-ubyte", Idx({40}, std::string(40, '\1')));
    WriteGraphs(at);
    Train(" --steps 1 --save " + at / "good");
    Train(" --steps 1 --save " + at / "damaged");
    FlipAByte(at / "damaged/latest/model.safetensors");
    ForgeACopy("deep_format", "state.json", "\"sluice checkpoint 1\"", DeepJson());
    ForgeACopy("deep_more", "state.json", "\"more\": {", "\"more\": {\"a\": " + DeepJson());
    ForgeACopy("deep_config", "config.json", "\"gpt2\"", DeepJson());
    const ProcessResult mlp =
        RunSluice(Words(absl::StrCat("train --model mlp --data ", at / "pixels",
                                     " --micro-batch-size 2 --steps 1 --save ", at / "mlp")));
    ASSERT_EQ(mlp.exit_code, kExitDone) << mlp.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  // PipeDream profiles; lines 1 and 2 are nodes.
  static void WriteGraphs(const TempFolder& at) {
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
  }

  static void Train(const std::string& more) {
    const ProcessResult result =
        RunSluice(Words(absl::StrCat("train --data ", *folder_ / "text", " ", WithTinyRun(more))));
    ASSERT_EQ(result.exit_code, kExitDone) << result.err;
  }
  // A copy of the good checkpoint, with something else in one of its files.
  static void ForgeACopy(const std::string& name, const std::string& file, const std::string& from,
                         const std::string& to) {
    using std::filesystem::copy_options;
    const std::string copy = *folder_ / name;
    std::filesystem::copy(*folder_ / "good", copy,
                          copy_options::recursive | copy_options::copy_symlinks);
    Forge(copy + "/latest", file, from, to);
  }
  static std::string Noise(size_t bytes) {
    std::string noise;
    for (size_t i = 0; i < bytes; ++i) noise += static_cast<char>(i * i * 31 >> 3U);
    return noise;
  }
  static void FlipAByte(const std::string& path) {
    std::string bytes = ReadBytes(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    WriteBytes(path, bytes);
  }

  static TempFolder* folder_;
};

TempFolder* BadInputTest::folder_ = nullptr;

// Without the line that is said of bf16 on a processor that has none.
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

std::string With(const std::string& more) {
  return absl::StrCat("train --data @/text ", WithTinyRun(more));
}
std::string WithData(const std::string& data) {
  return absl::StrCat("train --data ", data, " ", WithTinyRun(""));
}

std::string Graph(const std::string& file, const std::string& more = "--devices 2") {
  return absl::StrCat("plan @/", file, " --objective bottleneck ", more);
}

std::vector<BadInput> StageReplicaInputs() {
  return {
      {"StageReplicasNoNumber",
       With("--stage-replicas 2,x"),
       kExitBadInput,
       {"2,x", "such as 3,1"}},
      {"StageReplicasNone", With("--stage-replicas 0,1"), kExitBadInput, {"0,1", "such as 3,1"}},
      {"StageReplicasHuge", With("--stage-replicas 9999,1"), kExitBadInput, {"1024 in all"}},
      {"StageReplicasOverflow", With("--stage-replicas 99999999999,1"), kExitBadInput, {"1024"}},
      {"StageReplicasOfOtherStages",
       With("--stage-replicas 2,1,1"),
       kExitBadInput,
       {"is for 3 stages, not 2", "--stages 3"}},
      {"StageReplicasThatDoNotDivide",
       With("--stage-replicas 3,1 --micro-batches 4"),
       kExitBadInput,
       {"cannot be dealt to the 3 replicas of stage 0", "--sum-groups"}},
      {"StageReplicasAndSumsThatDoNotDivide",
       With("--stage-replicas 2,1 --micro-batches 6 --sum-groups 3"),
       kExitBadInput,
       {"6 micro-batches in 3 sums", "2 replicas of stage 0"}},
      {"StageReplicasAndDataParallel",
       With("--stage-replicas 2,1 --data-parallel 2"),
       kExitBadInput,
       {"give one of the two"}},
      {"StageReplicasAndZero2",
       With("--stage-replicas 2,1 --zero 2"),
       kExitBadInput,
       {"take ZeRO 1"}},
      {"StageReplicasOfTiedStages",
       With("--stage-replicas 2,1 --tied --zero 1"),
       kExitBadInput,
       {"take ZeRO 0", "without --tied"}},
      {"StageReplicasOfChunks",
       With("--stage-replicas 2,1 --schedule interleaved --micro-batches 6"),
       kExitBadInput,
       {"'interleaved'", "several stages"}},
      {"StageReplicasWithoutAFlush",
       With("--stage-replicas 2,1 --schedule pipedream"),
       kExitBadInput,
       {"'pipedream'", "no flush"}},
  };
}

std::vector<BadInput> PlanInputs() {
  return {
      // Graphs.
      {"MissingGraph", Graph("none.txt"), kExitBadInput, {"@/none.txt"}},
      {"EdgeToNowhere", Graph("edge.txt"), kExitBadInput, {"@/edge.txt:3", "no node 'node7'"}},
      {"BrokenEdge", Graph("arrow.txt"), kExitBadInput, {"@/arrow.txt:3", "nodeA -- nodeB"}},
      {"EdgeTwice", Graph("edges.txt"), kExitBadInput, {"@/edges.txt:4", "given twice"}},
      {"Cycle", Graph("cycle.txt"), kExitBadInput, {"@/cycle.txt:", "cycle"}},
      {"NegativeCost",
       Graph("negative.txt"),
       kExitBadInput,
       {"@/negative.txt:2", "forward_compute_time is '-1'"}},
      {"CostThatIsNoNumber", Graph("nan.txt"), kExitBadInput, {"@/nan.txt:1", "'nan'"}},
      {"MissingCost",
       Graph("missing.txt"),
       kExitBadInput,
       {"@/missing.txt:1", "'node1' has no parameter_size"}},
      {"NodeTwice", Graph("nodes.txt"), kExitBadInput, {"@/nodes.txt:2", "'node1'", "twice"}},
      {"MoreDevicesThanNodes",
       Graph("graph.txt", "--devices 3"),
       kExitBadInput,
       {"2 nodes", "3 stages"}},
      {"GraphTooLarge",
       Graph("graph.txt", "--devices 2 --memory 1MB"),
       kExitNoPlan,
       {"(1000000 bytes)", "stage 0 (node1)", "(40000000 bytes)", "2 micro-batches"}},
      // Flags.
      {"NoDevices", Graph("graph.txt", "--devices 0"), kExitBadInput, {"--devices", "not 0"}},
      {"NegativeDevices", Graph("graph.txt", "--devices -2"), kExitBadInput, {"--devices"}},
      {"UnknownBandwidth",
       Graph("graph.txt", "--devices 2 --bandwidth 12parsecs"),
       kExitBadInput,
       {"--bandwidth", "12parsecs", "GB/s"}},
      {"UnknownMemory",
       "plan gpt2 --device h200 --devices 2 --memory 80elephants",
       kExitBadInput,
       {"--memory", "80elephants", "GiB"}},
      {"NegativeMemory",
       "plan gpt2 --device h200 --devices 2 --memory=-1GiB",
       kExitBadInput,
       {"--memory", "-1GiB"}},
      {"MemoryNobodyCanMeet",
       "plan gpt2 --device h200 --devices 2 --memory 1MiB",
       kExitNoPlan,
       {"even the leanest needs", "stage", "layers"}},
      {"UnknownPlanModel",
       "plan lama-3 --device h200 --devices 2",
       kExitBadInput,
       {"'lama-3'", "gpt2-xl", "llama-3.1-8b", "deepseek-v3", "FILE.json"}},
      {"UnknownDevice", "plan gpt2 --device abacus --devices 2", kExitBadInput, {"abacus", "h200"}},
      // Numbers whose products would overflow, or take all memory.
      {"HugeMicroBatch",
       "plan gpt2 --device h200 --devices 2 --micro-batch-size 9000000000000000000",
       kExitBadInput,
       {"--micro-batch-size is 9000000000000000000", "at most"}},
      {"HugeTokens",
       "plan llama-3.1-8b --device h200 --devices 2 --micro-batch-size 100000 --seq 8192",
       kExitBadInput,
       {"819200000 tokens", "--micro-batch-size", "--seq"}},
      {"HugeTokensUnasked",
       "plan gpt2 --device h200 --devices 2 --micro-batch-size 1000000",
       kExitBadInput,
       {"1024000000 tokens", "--micro-batch-size", "--seq"}},
      {"HugeSequence",
       "plan gpt2 --device h200 --devices 2 --seq 2000000000",
       kExitBadInput,
       {"--seq is 2000000000", "at most"}},
      {"HugeMicroBatches",
       "plan gpt2 --device h200 --devices 2 --micro-batches 2000000000",
       kExitBadInput,
       {"--micro-batches is 2000000000", "at most"}},
      {"HugeGlobalBatch",
       "plan gpt2 --device h200 --devices 2 --global-batch 2000000000",
       kExitBadInput,
       {"--global-batch is 2000000000", "at most"}},
      {"ManyMicroBatches",
       "plan gpt2 --device h200 --devices 2 --micro-batch-size 1 --global-batch 16777216",
       kExitBadInput,
       {"16777216 micro-batches", "--global-batch"}},
      {"HugeChunks",
       "plan gpt2 --device h200 --devices 2 --chunks 2000000000",
       kExitBadInput,
       {"--chunks is 2000000000", "at most"}},
      {"HugeDevices",
       "plan gpt2 --device h200 --devices 2000000000",
       kExitBadInput,
       {"--devices is 2000000000", "at most"}},
      {"DevicesBeyondNumbers",
       "plan gpt2 --device h200 --devices 99999999999999999999",
       kExitBadInput,
       {"--devices"}},
      {"HugeReplicas",
       "plan gpt2 --device h200 --devices 4 --data-parallel 2000000000",
       kExitBadInput,
       {"--data-parallel is 2000000000", "at most"}},
      {"HugeTensor",
       "plan gpt2 --device h200 --devices 4 --tensor-parallel 2000000000",
       kExitBadInput,
       {"--tensor-parallel is 2000000000", "at most"}},
      {"HugeDevicesOfGraph",
       Graph("graph.txt", "--devices 2000000000 --data-parallel auto"),
       kExitBadInput,
       {"--devices is 2000000000", "at most"}},
      // Files.
      {"FieldTwice",
       "plan @/twice.json --device h200 --devices 2",
       kExitBadInput,
       {"@/twice.json", "\"hidden_size\" is given twice"}},
      {"DeepJson",
       "plan @/deep.json --device h200 --devices 2",
       kExitBadInput,
       {"@/deep.json", "nested more than"}},
      {"DeepCosts",
       "schedule show 1f1b -p 1 -m 1 --costs @/costs.json",
       kExitBadInput,
       {"@/costs.json: line 1, column 37", "nested more than 32 deep"}},
      {"DeepTrace",
       "schedule show 1f1b -p 1 -m 1 --format html --measured @/trace.json",
       kExitBadInput,
       {"@/trace.json", "nested more than 32 deep"}},
      {"EndlessConfig",
       "plan /dev/zero --device h200 --devices 2",
       kExitBadInput,
       {"/dev/zero: has more than 536870912 bytes"}},
      {"CutJson",
       "plan @/cut.json --device h200 --devices 2",
       kExitBadInput,
       {"@/cut.json", "line 3, column"}},
      {"NegativeHeads",
       "plan @/heads.json --device h200 --devices 2",
       kExitBadInput,
       {"@/heads.json", "'num_attention_heads' is -4"}},
      {"DeviceOfWords",
       "plan gpt2 --device @/device.json --devices 2",
       kExitBadInput,
       {"@/device.json", "'fp32_flops' is \"fast\""}},
  };
}

// Numbers that are none, wherever a flag takes a fraction.
std::vector<BadInput> NumberInputs() {
  std::vector<BadInput> inputs;
  const auto add = [&inputs](const std::string& name, const std::string& arguments,
                             const std::string& flag, const std::string& value) {
    inputs.push_back(
        {name, absl::StrCat(arguments, " ", flag, " ", value), kExitBadInput, {flag, value}});
  };
  for (const auto& [flag, name] : std::map<std::string, std::string>{{"--lr", "Rate"},
                                                                     {"--weight-decay", "Decay"},
                                                                     {"--clip", "Clip"},
                                                                     {"--momentum", "Momentum"}}) {
    add(name + "Nan", With(""), flag, "nan");
    add(name + "Infinite", With(""), flag, "inf");
    add(name + "BeyondDoubles", With(""), flag, "1e999");
  }
  // Finite, but not as the float that the optimizer makes of it.
  add("RateBeyondFloats", With(""), "--lr", "1e39");
  add("DecayBeyondFloats", With(""), "--weight-decay", "1e300");
  for (const char* value : {"nan", "inf", "1e999"}) {
    const std::string name = value == std::string("1e999") ? "Huge" : value;
    add("Timeout" + name, With(""), "--timeout", value);
    add("Temperature" + name, "sample --load @/good", "--temperature", value);
    const std::string plan = "plan gpt2 --device h200 --devices 2";
    add("Gap" + name, plan, "--gap", value);
    add("Bandwidth" + name, plan, "--bandwidth", value);
    add("Latency" + name, plan, "--latency", value);
    add("Memory" + name, plan, "--memory", value);
    add("TimeLimit" + name, plan, "--time-limit", value);
    inputs.push_back({"Cost" + name,
                      absl::StrCat("schedule show 1f1b -p 2 -m 2 --cost F=", value),
                      kExitBadInput,
                      {"--cost", value}});
    add("SearchTime" + name, "schedule show auto -p 2 -m 2", "--time-limit", value);
  }
  return inputs;
}

std::vector<BadInput> Inputs() {
  return {
      // Usage.
      {"NoCommand", "", kExitBadInput, {"ubcommand"}},
      {"UnknownCommand", "trian", kExitBadInput, {"trian"}},
      {"NoData", "train", kExitBadInput, {"--data"}},
      {"UnknownFlag", With("--step 3"), kExitBadInput, {"--step"}},
      {"NotANumber", With("--lr fast"), kExitBadInput, {"--lr: fast is no number"}},
      // Data.
      {"MissingData", WithData("@/nothing"), kExitBadInput, {"@/nothing"}},
      {"EmptyText", WithData("@/empty"), kExitBadInput, {"@/empty", "empty"}},
      {"ShortText", WithData("@/short"), kExitBadInput, {"@/short", "10 bytes", "window of 17"}},
      {"TruncatedIdx",
       "train --model mlp --data @/idx --steps 2",
       kExitBadInput,
       {"@/idx/train-images-idx3-ubyte"}},
      {"ImagesForAGpt", WithData("@/images"), kExitBadInput, {"@/images", "a GPT takes text"}},
      {"TextForAnMlp",
       "train --model mlp --data @/text --steps 2",
       kExitBadInput,
       {"@/text", "an MLP images"}},
      {"OtherPixels",
       "train --model mlp --data @/images --steps 2",
       kExitBadInput,
       {"@/images", "16 pixels", "784"}},
      {"SmallVocabulary", With("--vocab 100"), kExitBadInput, {"@/text", "256", "--vocab"}},
      {"WordsOfAPreset",
       With("--model gpt2 --vocab 300"),
       kExitBadInput,
       {"@/text is text", "256", "vocabulary of 300 tokens that are not bytes", "--bytes"}},
      {"WordsOfAConfig",
       "train --data @/text --model @/words.json --seq 16 --steps 2",
       kExitBadInput,
       {"@/text is text", "@/words.json", "50257", "--vocab 256", "--bytes"}},
      {"WordsOfAHubFolder",
       "train --data @/text --model @/words.json --init @/good/latest --seq 16 --steps 2",
       kExitBadInput,
       {"@/text is text", "@/words.json", "50257", "--bytes"}},
      {"TokensForText",
       WithData("@/train.bin"),
       kExitBadInput,
       {"@/train.bin", "nanoGPT", "expected text", "--bytes"}},
      {"JsonLinesForText",
       WithData("@/lines.jsonl"),
       kExitBadInput,
       {"@/lines.jsonl", "JSON", "expected text", "--bytes"}},
      {"BytesOfImages",
       "train --model mlp --data @/pixels --bytes --steps 2",
       kExitBadInput,
       {"--bytes is for text", "@/pixels"}},
      // Devices.
      {"UnknownDeviceOfTrain",
       With("--device abacus"),
       kExitBadInput,
       {"--device abacus", "cpu or cuda"}},
      {"NcclOnTheCpu", With("--transport nccl"), kExitBadInput, {"nccl", "--device cuda"}},
      {"GraphsOnTheCpu", With("--cuda-graphs"), kExitBadInput, {"--cuda-graphs", "--device cuda"}},
      {"AttentionOnTheCpu",
       With("--attention cudnn"),
       kExitBadInput,
       {"--attention cudnn", "--device cuda"}},
      {"UnknownAttention", With("--attention hawk"), kExitBadInput, {"--attention", "hawk"}},
      {"UnknownTransport", With("--transport pigeon"), kExitBadInput, {"pigeon", "tcp or nccl"}},
      // Pipeline.
      {"MoreStagesThanLayers", With("--stages 5"), kExitBadInput, {"4 layers", "5"}},
      {"NoStages", With("--stages 0"), kExitBadInput, {"--stages"}},
      {"NoMicroBatches", With("--micro-batches 0"), kExitBadInput, {"--micro-batches"}},
      {"NegativeMicroBatches", With("--micro-batches -3"), kExitBadInput, {"--micro-batches"}},
      {"EmptyMicroBatches", With("--micro-batch-size 0"), kExitBadInput, {"--micro-batch-size"}},
      {"HugeMicroBatches",
       With("--micro-batch-size 2000000000"),
       kExitBadInput,
       {"micro-batch size 2000000000"}},
      {"UnknownSchedule", With("--schedule 2f2b"), kExitBadInput, {"2f2b", "1f1b"}},
      {"PartitionWithAGap", With("--partition 0-1,3-3"), kExitBadInput, {"0-1,3-3"}},
      {"PartitionThatOverlaps", With("--partition 0-2,2-3"), kExitBadInput, {"0-2,2-3"}},
      {"PartitionThatEndsEarly", With("--partition 0-0,1-2"), kExitBadInput, {"0-0,1-2"}},
      {"PartitionOfThree", With("--partition 0-0,1-1,2-3"), kExitBadInput, {"3 stages", "2"}},
      {"PartitionOfWords", With("--partition first,rest"), kExitBadInput, {"first"}},
      {"DamagedPlan",
       "train --data @/text --plan @/plan.json --steps 2",
       kExitBadInput,
       {"@/plan.json"}},
      {"OtherPlan",
       "train --data @/text --plan @/other.json --steps 2",
       kExitBadInput,
       {"@/other.json", "schedule"}},
      {"MissingPlan",
       "train --data @/text --plan @/none.json --steps 2",
       kExitBadInput,
       {"@/none.json"}},
      {"DefectiveTimetable",
       With("--schedule @/table.csv"),
       kExitInvalidTimetable,
       {"table.csv", "0B0", "schedule check"}},
      {"TimeoutWithoutUnit", With("--timeout 30"), kExitBadInput, {"--timeout 30", "30s"}},
      {"NegativeTimeout", With("--timeout -5s"), kExitBadInput, {"--timeout"}},
      {"OtherDevice", With("--device abacus"), kExitBadInput, {"abacus"}},
      {"OtherDtype", With("--dtype fp8"), kExitBadInput, {"fp8"}},
      // Model.
      {"UnknownModel", With("--model gtp"), kExitBadInput, {"gtp"}},
      {"MissingConfig",
       "train --data @/text --model @/none/config.json --steps 2",
       kExitBadInput,
       {"@/none/config.json"}},
      {"ConfigWithoutVocabulary",
       "train --data @/text --model @/config.json --steps 2",
       kExitBadInput,
       {"@/config.json"}},
      {"HeadsThatDoNotDivide", With("--heads 3"), kExitBadInput, {"heads"}},
      {"DoesNotFit", With("--dim 60000 --heads 2"), kExitOutOfMemory, {"GiB"}},
      {"UnknownNorm", With("--norm batch"), kExitBadInput, {"--norm", "batch", "layer", "rms"}},
      {"NormOfAnMlp",
       With("--model mlp --norm rms"),
       kExitBadInput,
       {"--norm", "'mlp' is not one"}},
      {"TooWide", With("--dim 2000000000 --heads 2"), kExitBadInput, {"dim"}},
      // Checkpoints.
      {"ResumeNothing", With("--resume @/nowhere"), kExitBadInput, {"@/nowhere"}},
      {"ResumeDamaged",
       With("--resume @/damaged"),
       kExitBadInput,
       {"@/damaged/step-00000001/model.safetensors", "damaged"}},
      {"ResumeDeepFormat",
       With("--resume @/deep_format"),
       kExitBadInput,
       {"@/deep_format/step-00000001/state.json", "nested more than 32 deep"}},
      {"ResumeDeepMore",
       With("--resume @/deep_more"),
       kExitBadInput,
       {"@/deep_more/step-00000001/state.json", "nested more than 32 deep"}},
      {"ResumeDeepConfig",
       With("--resume @/deep_config"),
       kExitBadInput,
       {"@/deep_config/step-00000001/config.json", "nested more than 32 deep"}},
      {"ResumeOtherSeed", With("--resume @/good --seed 2"), kExitBadInput, {"the seed", "@/good"}},
      {"ResumeOtherBatches",
       With("--resume @/good --micro-batches 4"),
       kExitBadInput,
       {"the number of micro-batches (saved 2, given 4)"}},
      {"ResumeOtherModel", With("--resume @/good --dim 32"), kExitBadInput, {"the model's shape"}},
      {"ResumeOtherNorm",
       With("--resume @/good --norm rms"),
       kExitBadInput,
       {"the model's norms, --norm (saved layer, given rms)"}},
      {"InitOtherNorm",
       With("--norm rms --init @/good/latest"),
       kExitBadInput,
       {"@/good/latest", "layer norms", "--norm layer"}},
      {"InitMissing", With("--init @/none.safetensors"), kExitBadInput, {"@/none.safetensors"}},
      {"InitDamaged",
       With("--init @/weights.safetensors"),
       kExitBadInput,
       {"@/weights.safetensors"}},
      {"InitOtherShape", With("--dim 32 --init @/good/latest"), kExitBadInput, {"shape"}},
      {"InitDeeperFile", With("--layers 1 --init @/good/latest"), kExitBadInput, {"deeper"}},
      {"InitShallowerFile", With("--layers 3 --init @/good/latest"), kExitBadInput, {"lacks"}},
      {"SaveToAFile", With("--save @/text"), kExitBadInput, {"@/text"}},
      {"SaveBelowAFile", With("--save @/text/out"), kExitBadInput, {"@/text/out"}},
      {"TraceToNowhere", With("--trace @/none/trace.json"), kExitBadInput, {"@/none/trace.json"}},
      // Divergence.
      {"NanLoss",
       With("--steps 50 --lr 1e30 --clip 0"),
       kExitBadInput,
       {"layer", "stage", "micro-batch", "--lr"}},
      {"NanLossBf16",
       With("--steps 50 --lr 1e30 --clip 0 --dtype bf16 --json"),
       kExitBadInput,
       {"layer", "stage", "micro-batch", "--lr"}},
      {"NanLossSgd",
       With("--steps 50 --lr 1e35 --optimizer sgd --micro-batches 4"),
       kExitBadInput,
       {"layer", "stage", "micro-batch", "--lr"}},
      // Sample.
      {"SampleNothing", "sample", kExitBadInput, {"--load"}},
      {"SampleMissing", "sample --load @/nowhere", kExitBadInput, {"@/nowhere"}},
      {"SampleDamaged", "sample --load @/damaged", kExitBadInput, {"model.safetensors", "damaged"}},
      {"SampleDeepFormat",
       "sample --load @/deep_format",
       kExitBadInput,
       {"@/deep_format/step-00000001/state.json", "nested more than 32 deep"}},
      {"SampleDeepMore",
       "sample --load @/deep_more",
       kExitBadInput,
       {"@/deep_more/step-00000001/state.json", "nested more than 32 deep"}},
      {"SampleDeepConfig",
       "sample --load @/deep_config",
       kExitBadInput,
       {"@/deep_config/step-00000001/config.json", "nested more than 32 deep"}},
      {"SampleMlp", "sample --load @/mlp", kExitBadInput, {"@/mlp", "only a GPT"}},
      {"SampleAFile", "sample --load @/text", kExitBadInput, {"@/text"}},
      {"SampleNegative",
       "sample --load @/good -n -1",
       kExitBadInput,
       {"--count", "-1 is too small"}},
      {"SampleColder", "sample --load @/good --temperature -1", kExitBadInput, {"--temperature"}},
      {"SampleWords", "sample --load @/good --tokens 1,two", kExitBadInput, {"--tokens", "two"}},
      {"SampleUnknownToken", "sample --load @/good --tokens 1,256", kExitBadInput, {"256"}},
      {"SampleLogitsOfTooMuch",
       "sample --load @/good -n 0 --logits @/l.json --prompt 0123456789abcdefg",
       kExitBadInput,
       {"17 tokens", "16"}},
      {"SampleLogitsToNowhere",
       "sample --load @/good -n 0 --logits @/none/l.json",
       kExitBadInput,
       {"@/none/l.json"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Plan, BadInputTest, ::testing::ValuesIn(PlanInputs()),
                         [](const auto& param) { return param.param.name; });
INSTANTIATE_TEST_SUITE_P(StageReplicas, BadInputTest, ::testing::ValuesIn(StageReplicaInputs()),
                         [](const auto& param) { return param.param.name; });
INSTANTIATE_TEST_SUITE_P(Numbers, BadInputTest, ::testing::ValuesIn(NumberInputs()),
                         [](const auto& param) { return param.param.name; });
INSTANTIATE_TEST_SUITE_P(Train, BadInputTest, ::testing::ValuesIn(Inputs()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace sluice
