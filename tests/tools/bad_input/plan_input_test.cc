// What can be wrong with what `sluice plan` is given, and with the files of `sluice schedule`.
#include "tests/tools/bad_input/bad_input.h"

namespace sluice {
namespace {

std::string Graph(const std::string& file, const std::string& more = "--devices 2") {
  return absl::StrCat("plan @/", file, " --objective bottleneck ", more);
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
       {"the leanest found needs", "stage", "layers"}},
      {"FileOfNoName",
       "plan @/text/ --devices 2 --device h200",
       kExitBadInput,
       {"cannot open @/text/: Not a directory"}},
      {"ClusterOfNoName",
       "plan gpt2 --cluster @/cluster.json/ --devices 2",
       kExitBadInput,
       {"cannot open @/cluster.json/: Not a directory"}},
      {"MemoryWithoutUnit",
       "plan gpt2 --device h200 --devices 2 --memory 80",
       kExitNoPlan,
       {"(80 bytes)", "--memory 80 has no unit, and so is in bytes; give one, such as 80GiB"}},
      {"TooManyOrdersOfDevices",
       "plan gpt2-xl --cluster @/cluster.json --devices 24",
       kExitBadInput,
       {"more than 128 orders of these devices in a pipeline of 24 ranks",
        "a larger --data-parallel or --tensor-parallel"}},
      {"UnknownPlanModel",
       "plan lama-3 --device h200 --devices 2",
       kExitBadInput,
       {"'lama-3'", "gpt2-xl", "llama-3.1-8b", "deepseek-v3", "FILE.json"}},
      {"ConfigOfNoKnownFamilyToPlan",
       "plan @/unknown.json --devices 2 --device h200",
       kExitBadInput,
       {"@/unknown.json: field 'model_type' is \"mamba\"", "--assume llama"}},
      {"TooFewLayersForAnyChunks",
       "plan gpt2 --devices 14 --device h200 --schedule interleaved",
       kExitBadInput,
       {"14 devices x 2 chunks are 28 stages, more than the 14 layers"}},
      {"FamilyOfPreset",
       "plan gpt2 --devices 2 --device h200 --assume llama",
       kExitBadInput,
       {"--assume llama has no effect on gpt2, a preset", "leave it out"}},
      {"NormsThatNoQwenHas",
       "plan qwen3-0.6b --devices 2 --device h200 --norm layer",
       kExitBadInput,
       {"--norm layer", "'qwen3-0.6b', a qwen3, are rms", "leave it out"}},
      {"UnknownDevice", "plan gpt2 --device abacus --devices 2", kExitBadInput, {"abacus", "h200"}},
      // Numbers whose products would overflow, or need all memory.
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
      {"SlowerThanAnyLink",
       "plan @/graph.txt --devices 2 --objective bottleneck --bandwidth 1e-320",
       kExitBadInput,
       {"--bandwidth: '1e-320'", "at least 1B/s"}},
      {"LongerThanAnyLink",
       "plan @/graph.txt --devices 2 --latency 1e308",
       kExitBadInput,
       {"--latency: '1e308'", "expected at most 1e+06 s"}},
      {"NoFiniteTime",
       "plan gpt2 --devices 2 --device @/slow.json --objective bottleneck",
       kExitBadInput,
       {"@/slow.json: field 'bf16_flops' is 1e-300; expected a number of at least 1"}},
      {"EndlessConfig",
       "plan /dev/zero --device h200 --devices 2",
       kExitBadInput,
       {"/dev/zero is not a regular file; expected a file"}},
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

// Flags that have no effect on a graph, which was measured as it is.
std::vector<BadInput> GraphFlagInputs() {
  std::vector<BadInput> inputs;
  const auto add = [&inputs](const std::string& name, const std::string& flag,
                             const std::string& value, const std::string& more = "") {
    inputs.push_back({name,
                      absl::StrCat("plan @/graph.txt --devices 2 ", flag, " ", value, more),
                      kExitBadInput,
                      {flag}});
  };
  add("DeviceOfGraph", "--device", "h200");
  add("ClusterOfGraph", "--cluster", "@/none.json");
  add("FamilyOfGraph", "--assume", "llama");
  add("TokensOfGraph", "--seq", "16");
  add("DtypeOfGraph", "--dtype", "bf16");
  add("TensorParallelGraph", "--tensor-parallel", "2");
  add("AnyTensorParallelGraph", "--tensor-parallel", "auto");
  add("SequenceParallelGraph", "--sequence-parallel", "");
  add("ZeroOfGraph", "--zero", "1");
  add("OverlapOfGraph", "--overlap-sync", "");
  add("OptimizerOfGraph", "--optimizer", "sgd");
  add("RecomputedGraph", "--recompute", "full");
  const std::string bottleneck = " --objective bottleneck";
  add("DtypeOfBottleneck", "--dtype", "bf16", bottleneck);
  add("ScheduleOfBottleneck", "--schedule", "1f1b", bottleneck);
  add("MicroBatchesOfBottleneck", "--micro-batches", "8", bottleneck);
  add("MicroBatchSizeOfBottleneck", "--micro-batch-size", "8", bottleneck);
  add("GlobalBatchOfBottleneck", "--global-batch", "8", bottleneck);
  return inputs;
}

INSTANTIATE_TEST_SUITE_P(Plan, BadInputTest, ::testing::ValuesIn(PlanInputs()), NameOf);
INSTANTIATE_TEST_SUITE_P(GraphFlags, BadInputTest, ::testing::ValuesIn(GraphFlagInputs()), NameOf);

}  // namespace
}  // namespace sluice
