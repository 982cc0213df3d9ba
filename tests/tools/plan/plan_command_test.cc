// `sluice plan` and `sluice profile` run as a script runs them: what they print, and their exit
// codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/built_files.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class PlanCommand : public testing::Test {
 protected:
  PlanCommand() : folder_(testing::TempDir() + "sluice_plan_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~PlanCommand() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  Outcome Run(const std::string& arguments, int columns = 80) const {
    const std::string command = "COLUMNS=" + std::to_string(columns) + " " + SluiceProgram() + " " +
                                arguments + " 2>" + Path("err");
    std::FILE* pipe = popen(command.c_str(), "r");
    Outcome outcome;
    std::array<char, 4096> block;
    while (const size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
      outcome.out.append(block.data(), count);
    }
    const int status = pclose(pipe);
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    outcome.err = Contents(Path("err"));
    return outcome;
  }

  json Plan(const std::string& arguments) const {
    const Outcome outcome = Run("plan " + arguments + " --format json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }

  void ExpectFailure(const std::string& arguments, int code, const std::string& message) const {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, code) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
  }

 private:
  std::string folder_;
};

constexpr const char* kGpt2 = "gpt2 --devices 4 --device h200";

TEST_F(PlanCommand, CoversEveryLayerOnceAndEveryDevice) {
  const json plan = Plan(kGpt2);
  ASSERT_EQ(plan["stages"].size(), 4 * plan["chunks"].get<int>());
  int next = 0;
  int64_t parameters = 0;
  for (const json& stage : plan["stages"]) {
    EXPECT_EQ(stage["first_layer"], next);
    next = stage["last_layer"].get<int>() + 1;
    parameters += stage["parameters"].get<int64_t>();
    EXPECT_LE(stage["peak_bytes"].get<int64_t>(), 141'000'000'000);
  }
  EXPECT_EQ(next, 14);
  EXPECT_EQ(parameters, 124'439'808);  // GPT-2 small's, as its paper's code counts them
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_EQ(plan["stages"].back()["send_bytes"], 0);
  EXPECT_FALSE(plan["rejected"].empty());
}

TEST_F(PlanCommand, PlansForLargeDecodersAndForThoseThatItDoesNotTrain) {
  const json plan = Plan(
      "llama-3.1-8b --devices 8 --device h200 --seq 4096 --micro-batch-size 1 --schedule 1f1b");
  int64_t parameters = 0;
  for (const json& stage : plan["stages"]) parameters += stage["parameters"].get<int64_t>();
  EXPECT_EQ(parameters, 8030261248);  // Meta's own count
  EXPECT_EQ(plan["stages"].back()["last_layer"], 33);
  ExpectFailure("plan mixtral-8x7b --devices 4", 2, "--device");
  ExpectFailure("plan mixtral-8x7b --devices 4 --device h200 --dim 8", 2, "--dim");
  ExpectFailure("plan mixtral-8x7b --devices 4 --device h200 --seq 1000000", 2, "--seq");
  ExpectFailure("plan llama-3.1-70b --devices 4 --device h200", 3, "no plan fits");
}

// However many devices share a layer, the model has Meta's own count of parameters, and its rates
// are PaLM's appendix B by hand: 6 FLOPs per parameter of a product (all but the embedding's and
// the norms') and token, and those of attention at half, 6 * layers * dim * seq.
TEST_F(PlanCommand, SaysWhatTheModelGetsOfItsDevices) {
  constexpr double kSeq = 4096, kLayers = 80, kDim = 8192, kVocab = 128256;
  constexpr int64_t kParameters = 70553706496;
  const double products =
      static_cast<double>(kParameters) - kVocab * kDim - (2 * kLayers + 1) * kDim;
  const double per_token = 6 * products + 6 * kLayers * kDim * kSeq;
  for (const char* shared : {"--tensor-parallel 2", "--tensor-parallel 4 --data-parallel 2"}) {
    const json plan = Plan(
        "llama-3.1-70b --devices 32 --device h100 --seq 4096 --micro-batch-size 1 --zero 1 "
        "--schedule 1f1b " +
        std::string(shared));
    EXPECT_EQ(plan["parameters"], kParameters) << shared;
    const double tokens = plan["tokens_per_second_per_device"];
    EXPECT_NEAR(tokens * 32, plan["tokens_per_second"].get<double>(), 1e-6 * tokens) << shared;
    const double flops = plan["flops_per_second_per_device"];
    EXPECT_NEAR(flops, tokens * per_token, 1e-6 * flops) << shared;
    EXPECT_NEAR(plan["mfu"].get<double>(), flops / 989.5e12, 1e-9) << shared;
  }
}

// Where nobody says what the devices could do, there is no utilization; where they differ, it is of
// all of them together.
TEST_F(PlanCommand, UtilizationIsOfThePeaksThatAreKnown) {
  const json here = Plan("mlp --devices 2 --schedule 1f1b");
  EXPECT_GT(here["flops_per_second_per_device"].get<double>(), 0);
  EXPECT_FALSE(here.contains("mfu"));
  std::ofstream(Path("mixed.json"))
      << R"({"name": "mixed", "devices": [{"device": "v100", "count": 2}, {"device": "h100", "count": 2}],
             "devices_per_node": 4})";
  const json mixed = Plan("gpt2-xl --devices 4 --cluster " + Path("mixed.json") +
                          " --micro-batch-size 1 --seq 512 --schedule 1f1b");
  const double flops = mixed["flops_per_second_per_device"];
  EXPECT_NEAR(mixed["mfu"].get<double>(), 4 * flops / (2 * 125e12 + 2 * 989.5e12), 1e-9);
}

TEST_F(PlanCommand, ShowsTheMemoryOfARankOnce) {
  const Outcome outcome =
      Run("plan gpt2 --devices 4 --device h200 --schedule interleaved --chunks 3");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int rows = 0, with_memory = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" none") == std::string::npos) continue;
    ++rows;
    if (line.find("GiB") != std::string::npos) ++with_memory;
  }
  EXPECT_EQ(rows, 12);
  EXPECT_EQ(with_memory, 4);
  EXPECT_THAT(outcome.out, HasSubstr("per device"));
  EXPECT_THAT(outcome.out, HasSubstr("MFU"));
}

// What a figure of a paper needs: whose step it is, in which unit, on which layers, at its width.
TEST_F(PlanCommand, DrawsAStepForAPaper) {
  const std::string command =
      "plan gpt2-xl --devices 4 --device a100 --micro-batch-size 2 --schedule 1f1b --format svg";
  const std::string drawn = Run(command + " --width 700").out;
  EXPECT_THAT(drawn, HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"700\""));
  EXPECT_THAT(drawn, HasSubstr(">gpt2-xl on 4 x a100: 1f1b, 16 micro-batches<"));
  for (const char* said : {">time (ms)<", "tokens/s", "MFU", "proved optimal", ">memory<", "GiB<"})
    EXPECT_THAT(drawn, HasSubstr(said));
  // Every rank has its layers below its name.
  const json plan = Plan("gpt2-xl --devices 4 --device a100 --micro-batch-size 2 --schedule 1f1b");
  for (const json& stage : plan["stages"]) {
    EXPECT_THAT(drawn, HasSubstr(">layers " + std::to_string(stage["first_layer"].get<int>()) +
                                 "-" + std::to_string(stage["last_layer"].get<int>()) + "<"));
  }
  EXPECT_THAT(Run(command + " --title 'One step'").out, HasSubstr(">One step<"));
  EXPECT_THAT(Run(command + " --title ''").out, Not(HasSubstr("tokens/s")));
  ExpectFailure("plan gpt2 --devices 2 --device h200 --width 700", 2, "--width is for pictures");
  ExpectFailure("plan gpt2 --devices 2 --device h200 --title x --json", 2,
                "--title is for pictures");
  ExpectFailure(command + " --width 100", 2, "320 to 10000");
}

// Nothing is cut, however narrow the table; and where the locale is not UTF-8, all is ASCII. The
// question has all parts of an answer, and few micro-batches, since the search asks for every
// variant.
TEST_F(PlanCommand, TablesFitAndAreNeverCut) {
  const std::string variants =
      "--layers 10 --micro-batches 4 --micro-batch-size 16 --schedule interleaved --chunks 3 "
      "--what-if --pareto";
  for (const int columns : {80, 100, 160}) {
    for (const std::string& flags : {variants, std::string()}) {
      setenv("LC_ALL", columns == 100 ? "C" : "C.UTF-8", 1);
      const Outcome outcome = Run(std::string("plan ") + kGpt2 + " " + flags, columns);
      unsetenv("LC_ALL");
      ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_EQ(outcome.out.find("\u2026"), std::string::npos) << outcome.out;
      const bool ascii = std::all_of(outcome.out.begin(), outcome.out.end(),
                                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      EXPECT_EQ(ascii, columns == 100) << outcome.out;
      std::istringstream lines(outcome.out);
      for (std::string line; std::getline(lines, line);) {
        const auto width = std::count_if(line.begin(), line.end(), [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
        });
        EXPECT_LE(width, columns) << line;
      }
    }
  }
}

TEST_F(PlanCommand, ReadsConfigsOfOtherFamilies) {
  const std::string shape = R"("hidden_size": 256, "num_hidden_layers": 6,
    "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 512,
    "vocab_size": 1000, "max_position_embeddings": 2048})";
  std::ofstream(Path("qwen.json")) << R"({"model_type": "qwen2", )" << shape;
  std::ofstream(Path("novel.json")) << R"({"model_type": "novel", )" << shape;
  EXPECT_EQ(Plan(Path("qwen.json") + " --devices 2 --device a100 --schedule 1f1b")["stages"].size(),
            2u);
  ExpectFailure("plan " + Path("novel.json") + " --devices 2 --device a100", 2, "model_type");
  EXPECT_EQ(Plan(Path("novel.json") + " --assume llama --devices 2 --device a100")["devices"], 2);
  ExpectFailure("plan " + Path("qwen.json") + " --assume llama --devices 2 --device a100", 2,
                "whose model_type is known; leave it out");
  EXPECT_EQ(Plan(Path("qwen.json") + " --assume qwen2 --devices 2 --device a100")["devices"], 2);
  std::ofstream(Path("mlp.json")) << R"({"model_type": "mlp", "widths": [64, 32, 16, 8]})";
  EXPECT_EQ(Plan(Path("mlp.json") + " --devices 2 --device a100 --schedule 1f1b")["model_config"],
            json({{"type", "mlp"}, {"widths", {64, 32, 16, 8}}}));
}

// The head of GPT-2 has the embedding's weights: 50,257 words of 768 numbers.
TEST_F(PlanCommand, SaysWhatTheExchangeOfTiedGradientsTakes) {
  const std::string slow = std::string(kGpt2) + " --bandwidth 1GB/s --latency 0s --schedule ";
  const json apart = Plan(slow + "1f1b");
  const double swap = 4 * 50257 * 768 / 1e9;
  for (const char* end : {"0", "3"}) {
    const json& stage = apart["stages"][static_cast<size_t>(std::stoi(end))];
    EXPECT_GE(stage["tied_exchange_seconds"].get<double>(), swap);
    EXPECT_LT(stage["tied_exchange_seconds"].get<double>(), 1.01 * swap) << "and some adding";
    EXPECT_GE(stage["tail_seconds"], stage["tied_exchange_seconds"]);
  }
  EXPECT_FALSE(apart["stages"][1].contains("tied_exchange_seconds"));
  EXPECT_THAT(Run("plan " + slow + "1f1b").out,
              HasSubstr("per step: ranks 0 and 3 swap gradients of 147 MiB"));
  EXPECT_THAT(Run("plan " + slow + "1f1b --format svg").out,
              HasSubstr("exchange of tied gradients 15"));
  // A V of stages has both on rank 0.
  const json together = Plan(slow + "zbv");
  for (const json& stage : together["stages"])
    EXPECT_FALSE(stage.contains("tied_exchange_seconds"));
  EXPECT_THAT(Run("plan " + slow + "zbv").out, Not(HasSubstr("swap gradients")));
}

// However it is priced, a model takes no longer samples than its table of positions.
TEST_F(PlanCommand, RefusesSamplesThatAreTooLongForAModel) {
  std::ofstream(Path("gpt.json")) << R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 16,
    "n_head": 2, "n_positions": 16, "vocab_size": 256})";
  const std::string command = "plan " + Path("gpt.json") + " --devices 4 --seq 17 --device h200";
  const std::string expected = "--seq is 17; " + Path("gpt.json") + " takes 1 to 16";
  ExpectFailure(command, 2, expected);
  ExpectFailure(command + " --tensor-parallel 2", 2, expected);
}

constexpr const char* kDiamond =
    "node1 -- Input0 -- forward_compute_time=9.0, backward_compute_time=0.0, activation_size=8.0, "
    "parameter_size=0.0\n"
    "node2 -- a -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=1000.0, "
    "parameter_size=4.0\n"
    "node3 -- b -- forward_compute_time=2.0, backward_compute_time=3.0, activation_size=10.0, "
    "parameter_size=4.0\n"
    "node4 -- c -- forward_compute_time=1.0, backward_compute_time=1.0, activation_size=10.0, "
    "parameter_size=4.0\n"
    "node5 -- d -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=10.0, "
    "parameter_size=4.0\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n\tnode3 -- node5\n\tnode4 -- "
    "node5\n";

TEST_F(PlanCommand, GivesStagesOfAGraphSeveralDevices) {
  std::ofstream(Path("graph.txt")) << kDiamond;
  const std::string command = Path("graph.txt") + " --devices 3 --data-parallel auto ";
  // Sums of gradients cost nothing: each device takes a third of the micro-batches.
  const json whole = Plan(command + "--micro-batches 12");
  ASSERT_EQ(whole["stages"].size(), 1u);
  EXPECT_EQ(whole["stages"][0]["replicas"], 3);
  EXPECT_EQ(whole["stages"][0]["in_flight"], 1);
  EXPECT_EQ(whole["objective"], "step");
  EXPECT_EQ(whole["optimal"], true);
  EXPECT_NEAR(whole["step_seconds"].get<double>(), 4 * 13e-3, 1e-12);
  // Three devices do not divide the micro-batches, so there is one stage of two devices and one of
  // one.
  const json shared = Plan(command + "--micro-batches 16 --schedule 1f1b");
  ASSERT_EQ(shared["stages"].size(), 2u);
  EXPECT_EQ(shared["stages"][0]["replicas"].get<int>() + shared["stages"][1]["replicas"].get<int>(),
            3);
  EXPECT_EQ(shared["optimal"], true);
  const std::string drawn =
      Run("plan " + command + "--micro-batches 16 --schedule 1f1b --format svg").out;
  EXPECT_THAT(drawn, HasSubstr(">graph.txt on 3 devices: 1f1b, stages of 2+1, 16 micro-batches<"));
  EXPECT_THAT(drawn, HasSubstr("proved optimal"));
  ExpectFailure("plan " + Path("graph.txt") + " --devices 9 --data-parallel auto --micro-batches 1",
                2, "divide 1 micro-batch do not");
}

TEST_F(PlanCommand, CutsGraphsWhereAnyCutMayBe) {
  std::ofstream(Path("graph.txt")) << kDiamond;
  // a, b | c, d: 8 ms and 5; a, c | b, d: 5 and 8; a | b, c, d: 3 and 10.
  const json plan = Plan(Path("graph.txt") + " --devices 2 --objective bottleneck");
  EXPECT_NEAR(plan["bottleneck_seconds"].get<double>(), 8e-3, 1e-12);
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_TRUE(plan["stages"][0]["first_layer"].is_null());
  EXPECT_EQ(plan["stages"][0]["layer_names"].size(), 2u);
  // 13 ms over two replicas, and 4 P / (2 b) / 2 of all-reduce, which is nearly nothing here.
  const json replicated = Plan(Path("graph.txt") +
                               " --devices 2 --objective bottleneck --data-parallel auto "
                               "--bandwidth 1GB/s");
  EXPECT_EQ(replicated["stages"].size(), 1u);
  EXPECT_EQ(replicated["stages"][0]["replicas"], 2);
  ExpectFailure("plan " + Path("graph.txt") + " --devices 2 --data-parallel 2", 2,
                "--data-parallel auto");
  ExpectFailure("plan " + Path("graph.txt") + " --devices 9 --objective bottleneck", 2, "4 nodes");
  std::ofstream(Path("cycle.txt")) << kDiamond << "\tnode5 -- node2\n";
  ExpectFailure("plan " + Path("cycle.txt") + " --devices 2 --objective bottleneck", 2, "cycle");
}

// Eight branches of six operations between two others: 7^8 cuts and more, as NASNet has.
std::string WideGraph() {
  std::stringstream nodes, edges;
  const auto node = [&nodes](int number) {
    nodes << "node" << number << " -- Conv2d -- forward_compute_time=" << 1 + number % 5
          << ".0, backward_compute_time=" << 2 + number % 3
          << ".0, activation_size=1000000.0, parameter_size=" << number % 4 << "000.0\n";
  };
  node(0);
  for (int branch = 0; branch < 8; ++branch) {
    for (int i = 1; i <= 6; ++i) {
      node(6 * branch + i);
      edges << "\tnode" << (i == 1 ? 0 : 6 * branch + i - 1) << " -- node" << 6 * branch + i
            << "\n";
    }
    edges << "\tnode" << 6 * branch + 6 << " -- node49\n";
  }
  node(49);
  return nodes.str() + edges.str();
}

TEST_F(PlanCommand, AnswersGraphsWithTooManyCuts) {
  if (kSanitized) GTEST_SKIP() << "counts millions of cuts; partitioner_search_test has fewer";
  std::ofstream(Path("wide.txt")) << WideGraph();
  const json bottleneck = Plan(Path("wide.txt") + " --devices 3 --objective bottleneck");
  EXPECT_EQ(bottleneck["all_cuts"], false);
  EXPECT_LE(bottleneck["lower_bound"].get<double>(),
            bottleneck["bottleneck_seconds"].get<double>());
  EXPECT_EQ(bottleneck["optimal"], bottleneck["gap"].get<double>() <= 1e-9);
  EXPECT_LT(bottleneck["gap"].get<double>(), 0.02);

  const std::string command =
      Path("wide.txt") + " --devices 3 --schedule 1f1b --micro-batches 8 --latency 1ms";
  const json step = Plan(command);
  EXPECT_EQ(step["all_cuts"], false);
  EXPECT_EQ(step["stages"].size(), 3u);
  EXPECT_LT(step["lower_bound"].get<double>(), step["step_seconds"].get<double>());
  EXPECT_EQ(step["optimal"], false);
  EXPECT_LT(step["gap"].get<double>(), 0.1);
  const Outcome table = Run("plan " + command);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("more ways than can be tried"));
  EXPECT_THAT(table.out, HasSubstr("at best"));
  EXPECT_THAT(table.out, Not(HasSubstr("proved over every cut")));

  // It is the memory that ends this search, not the time.
  const Outcome tight =
      Run("plan " + Path("wide.txt") + " --devices 3 --objective bottleneck --memory 1B");
  EXPECT_EQ(tight.exit_code, 3);
  EXPECT_THAT(tight.err, HasSubstr("give more memory"));
  EXPECT_THAT(tight.err, Not(HasSubstr("time limit")));
}

TEST_F(PlanCommand, PlansTheStepOfGraphs) {
  std::ofstream(Path("graph.txt")) << kDiamond;
  // a, b | c, d: two forwards, 6 ms, wait for the first gradient until 8; then 4 backwards of 5 ms
  // and 2 forwards of 3. (a, c | b, d: 2 + 4 * 8 + 3; a | b, c, d: 1 + 4 * 10 + 2.)
  const json plan =
      Plan(Path("graph.txt") + " --devices 2 --schedule 1f1b --micro-batches 4 --latency 0s");
  EXPECT_NEAR(plan["step_seconds"].get<double>(), 34e-3, 1e-12);
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_EQ(plan["schedule"], "1f1b");
  EXPECT_EQ(plan["micro_batches"], 4);
  EXPECT_EQ(plan["stages"].size(), 2u);
  EXPECT_EQ(plan["stages"][0]["in_flight"], 2);
  EXPECT_TRUE(plan["stages"][0]["first_layer"].is_null());
  const json best = Plan(Path("graph.txt") + " --devices 2 --micro-batches 4");
  EXPECT_LE(best["step_seconds"].get<double>(), plan["step_seconds"].get<double>());
  EXPECT_EQ(best["optimal"], true);
  EXPECT_FALSE(best["rejected"].empty());
  EXPECT_THAT(Run("plan " + Path("graph.txt") +
                  " --devices 2 --schedule 1f1b --micro-batches 4 --format svg --width 900")
                  .out,
              HasSubstr(">graph.txt on 2 devices: 1f1b, 4 micro-batches<"));
  ExpectFailure("plan " + Path("graph.txt") + " --devices 2 --memory 1B", 3, "per device");
}

TEST_F(PlanCommand, IsTheSameEveryTime) {
  const std::string arguments = std::string("plan ") + kGpt2 + " --memory 3GiB --json";
  EXPECT_EQ(Run(arguments).out, Run(arguments).out);
}

TEST_F(PlanCommand, PricesItsOwnPartitionAsItSaid) {
  const json plan = Plan(std::string(kGpt2) + " --schedule 1f1b");
  const json again = Plan(std::string(kGpt2) + " --schedule 1f1b --partition " +
                          plan["partition"].get<std::string>());
  EXPECT_EQ(again["step_seconds"], plan["step_seconds"]);
  const json uneven = Plan(std::string(kGpt2) + " --schedule 1f1b --partition 0-5,6-8,9-11,12-13");
  EXPECT_GT(uneven["step_seconds"], plan["step_seconds"]);
}

TEST_F(PlanCommand, TheMemoryItAsksForIsEnoughAndOneByteLessIsNot) {
  const std::string limited = std::string("plan ") + kGpt2 + " --memory ";
  const Outcome refused = Run(limited + "500MiB");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("stage "));
  const size_t at = refused.err.find('(', refused.err.find("leanest found needs"));
  const int64_t enough = std::stoll(refused.err.substr(at + 1));
  EXPECT_EQ(Run(limited + std::to_string(enough)).exit_code, 0);
  EXPECT_EQ(Run(limited + std::to_string(enough - 1)).exit_code, 3);
}

TEST_F(PlanCommand, TheTableIsNoWiderThanTheTerminal) {
  for (const char* arguments :
       {kGpt2, "gpt2-xl --devices 8 --device a100 --memory 8GiB --schedule 1f1b",
        "mlp --devices 2 --device h200"}) {
    for (int columns : {80, 120, 160}) {
      const Outcome outcome = Run(std::string("plan ") + arguments, columns);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b"))) << "colours into a pipe";
      std::istringstream lines(outcome.out);
      for (std::string line; std::getline(lines, line);) {
        const auto width = std::count_if(line.begin(), line.end(), [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
        });
        EXPECT_LE(width, columns) << line;
      }
    }
  }
}

// Layer 0 is the embedding, so block 0 of the checkpoint is layer 1: said however narrow the table.
TEST_F(PlanCommand, SaysWhichNumberEachLayerHas) {
  for (const int columns : {80, 160}) {
    EXPECT_THAT(Run("plan gpt2 --devices 2 --device h200 --schedule 1f1b", columns).out,
                HasSubstr("124 M parameters, bf16, in 14 layers: embedding, block 0-11, head\n"));
  }
}

TEST_F(PlanCommand, WritesOtherFormats) {
  const std::string megatron = std::string("plan ") + kGpt2 + " --format megatron";
  const Outcome given = Run(megatron + " --partition 0-3,4-7,8-11,12-13 --data-parallel 1");
  EXPECT_THAT(given.out, HasSubstr("--pipeline-model-parallel-size 4\n"));
  EXPECT_THAT(given.out, HasSubstr("--pipeline-model-parallel-layout Ettt|tttt|tttt|tL\n"));
  EXPECT_THAT(given.err, HasSubstr("note: start 4 processes"));
  // Left to choose, it chooses what Megatron-LM can run.
  const std::string chosen =
      Run(megatron + " --data-parallel auto --global-batch 64 --memory 6GiB").out;
  EXPECT_THAT(chosen, HasSubstr("--global-batch-size 64\n"));
  EXPECT_THAT(chosen, Not(HasSubstr("selective")));
  const Outcome folded = Run(megatron + " --schedule zbv");
  EXPECT_EQ(folded.exit_code, 2);
  EXPECT_THAT(folded.err, HasSubstr("Megatron-LM has no schedule zbv; it has 1f1b and"));
  EXPECT_THAT(Run(megatron + " --recompute selective").err, HasSubstr("will need other memory"));
  EXPECT_THAT(Run(std::string("plan ") + kGpt2 + " --format svg").out, HasSubstr("<svg"));
  EXPECT_EQ(Run(std::string("plan ") + kGpt2 + " -o " + Path("plan.json")).exit_code, 0);
  EXPECT_EQ(json::parse(Contents(Path("plan.json")))["model"], "gpt2");
}

// Megatron-LM's arguments.py and megatron/core: bench/peers/megatron_plans.py has them read plans.
TEST_F(PlanCommand, AsksOfMegatronOnlyWhatItRuns) {
  const std::string experts =
      "plan mixtral-8x7b --devices 64 --device h100 --schedule 1f1b --format megatron";
  const Outcome apart = Run(experts + " --tensor-parallel 2");
  EXPECT_EQ(apart.exit_code, 2);
  EXPECT_THAT(apart.err, HasSubstr("trains experts on tensor-parallel devices with sequence"));
  const Outcome sliced = Run(experts + " --tensor-parallel 2 --sequence-parallel");
  EXPECT_EQ(sliced.exit_code, 0) << sliced.err;
  EXPECT_THAT(sliced.out, HasSubstr("--sequence-parallel\n"));
  EXPECT_THAT(sliced.err, HasSubstr("set CUDA_DEVICE_MAX_CONNECTIONS=1"));
  // Left to choose, it does not share out the experts.
  const Outcome chosen = Run(experts + " --tensor-parallel auto --data-parallel 2");
  EXPECT_THAT(chosen.out, HasSubstr("--tensor-model-parallel-size 1\n")) << chosen.err;
  EXPECT_THAT(chosen.err, Not(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));

  const std::string odd =
      "plan llama-3.1-8b --devices 8 --device h100 --seq 1001 --tensor-parallel 2 --schedule 1f1b";
  EXPECT_EQ(Run(odd).exit_code, 0);
  const Outcome unequal = Run(odd + " --sequence-parallel");
  EXPECT_EQ(unequal.exit_code, 2);
  EXPECT_THAT(unequal.err, HasSubstr("1001 tokens cannot be divided evenly among 2"));

  const std::string gpt2 = std::string("plan ") + kGpt2 + " --format megatron";
  EXPECT_THAT(Run(gpt2 + " --optimizer sgd --overlap-sync").out,
              HasSubstr("--optimizer sgd\n--overlap-grad-reduce\n"));
  const Outcome divided = Run(gpt2 + " --optimizer sgd --zero 1");
  EXPECT_EQ(divided.exit_code, 2);
  EXPECT_THAT(divided.err, HasSubstr("has no SGD"));
}

TEST_F(PlanCommand, WritesTorchTitansConfiguration) {
  const std::string asked =
      "plan llama-3.1-8b --devices 8 --device h100 --global-batch 64 --gap 5% --format torchtitan";
  const std::string toml = Path("run.toml"), csv = Path("run.csv");
  const Outcome looped =
      Run(asked + " --schedule interleaved --chunks 2 --data-parallel 2 --tensor-parallel 2 -o " +
          toml);
  ASSERT_EQ(looped.exit_code, 0) << looped.err;
  EXPECT_THAT(looped.err, HasSubstr("note: start 8 processes: 2 replicas of the pipeline"));
  const std::string text = Contents(toml);
  for (const std::string& line :
       {std::string("pipeline_parallel_degree = 2\n"), std::string("tensor_parallel_degree = 2\n"),
        std::string("pipeline_parallel_schedule = \"Interleaved1F1B\"\n"),
        "pipeline_parallel_schedule_csv = \"" + csv + "\"\n",
        std::string("local_batch_size = 32\n"),
        std::string("    [\"tok_embeddings\", \"layers.0\", "),
        std::string("\"layers.31\", \"norm\", \"output\"],\n"), std::string("mode = \"none\"\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(Run("schedule check " + csv).out, HasSubstr("2 ranks, 4 stages, 8 micro-batches"));
  ASSERT_EQ(Run(asked + " --schedule zbv -o " + toml).exit_code, 0);
  EXPECT_THAT(Contents(toml), HasSubstr("pipeline_parallel_schedule = \"ZBVZeroBubble\"\n"));
  // torchtitan 0.3 reads a module of Python, with another name for the head.
  const std::string python = Path("planned.py");
  ASSERT_EQ(Run(asked + " --schedule 1f1b --recompute full -o " + python).exit_code, 0);
  for (const char* line :
       {"-m torchtitan.train --module planned --config llama3.llama3_8b\n",
        "    config.parallelism.pipeline_parallel_schedule = \"1F1B\"\n",
        "        [\"tok_embeddings\", \"layers.0\", ", "\"norm\", \"lm_head\"],\n    ]\n",
        "    config.training.local_batch_size = 64\n", "with_name(\"planned.csv\"))\n",
        "    config.activation_checkpoint = activation_checkpoint.FullAC.Config()\n"}) {
    EXPECT_THAT(Contents(python), HasSubstr(line));
  }
  EXPECT_THAT(Run("schedule check " + Path("planned.csv")).out, HasSubstr("8 ranks, 8 stages"));
  // One policy for all stages, also where they are chosen.
  ASSERT_EQ(Run(asked + " --memory 40GiB -o " + toml).exit_code, 0);
  EXPECT_THAT(Contents(toml), Not(HasSubstr("selective")));
  const std::pair<const char*, const char*> wrong[] = {{"", "give -o NAME.py, or -o NAME.toml"},
                                                       {"-o llama-3.1.py", "a dot in its name"},
                                                       {"--zero 1 -o x.toml", "give --zero 0"}};
  for (const auto& [flags, why] : wrong) {
    const Outcome refused = Run(asked + " " + flags);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
  // Before a plan is looked for: there is none in so little memory.
  ExpectFailure(asked + " --zero 1 --memory 1GiB -o x.toml", 2, "give --zero 0");
  ExpectFailure(std::string("plan ") + kGpt2 + " --format megatron --memory 1MiB --audit 5", 2,
                "Megatron-LM has no --audit");
  EXPECT_THAT(
      Run("plan deepseek-v3 --devices 1024 --device h100 --data-parallel 16 --tensor-parallel "
          "8 --schedule 1f1b --format torchtitan --memory 2TiB -o x.toml")
          .err,
      HasSubstr("not 'predict ahead 0'"));
}

// A path is text: what is no quote or backslash is the same in TOML and Python as in its name.
TEST_F(PlanCommand, QuotesPathsForTorchTitan) {
  const std::string asked =
      "plan llama-3.1-8b --devices 8 --device h100 --global-batch 64 --schedule 1f1b --format "
      "torchtitan -o ";
  const std::string name = "pl\xc3\xa4n it's \"a\\b\"";
  const std::string quoted = "pl\xc3\xa4n it's \\\"a\\\\b\\\"";
  const auto shell = [](const std::string& path) {
    return absl::StrCat("'", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
  };
  ASSERT_EQ(Run(asked + shell(Path(name + ".toml"))).exit_code, 0);
  EXPECT_THAT(Contents(Path(name + ".toml")),
              HasSubstr("schedule_csv = \"" + Path(quoted) + ".csv\"\n"));
  ASSERT_EQ(Run(asked + shell(Path(name + ".py"))).exit_code, 0);
  EXPECT_THAT(Contents(Path(name + ".py")), HasSubstr("with_name(\"" + quoted + ".csv\"))\n"));
  // A line feed ends neither the string nor a comment.
  ASSERT_EQ(Run(asked + shell(Path("a\nb.py"))).exit_code, 0);
  EXPECT_THAT(Contents(Path("a\nb.py")), HasSubstr("with_name(\"a\\nb.csv\"))\n"));
  EXPECT_THAT(Contents(Path("a\nb.py")), HasSubstr("--module a\\nb --config"));
  ExpectFailure(asked + Path(".py"), 2, "cannot import a module without a name; give -o NAME.py");
}

// Whoever takes the plan learns that not all of the model is trained in it.
TEST_F(PlanCommand, TellsOtherTrainersWhatIsTrained) {
  const std::string asked =
      "plan llama-3.1-8b --devices 8 --device h100 --global-batch 64 --schedule 1f1b --format ";
  const std::pair<const char*, const char*> cases[] = {
      {" --lora r=16,alpha=32", "lora r=16,alpha=32,"}, {" --freeze '*norm*'", "freeze *norm*"}};
  for (const auto& [flags, what] : cases) {
    const std::string says = what;
    SCOPED_TRACE(flags);
    const Outcome megatron = Run(asked + "megatron" + flags);
    ASSERT_EQ(megatron.exit_code, 0) << megatron.err;
    EXPECT_THAT(megatron.err, HasSubstr("note: the plan is for " + says));
    EXPECT_THAT(megatron.err, HasSubstr("Megatron-LM's arguments cannot say that"));
    EXPECT_THAT(megatron.out, Not(HasSubstr("#")));  // they go to a command as they are
    for (const char* name : {"trained.toml", "trained.py"}) {
      const Outcome titan = Run(asked + "torchtitan -o " + Path(name) + flags);
      ASSERT_EQ(titan.exit_code, 0) << titan.err;
      EXPECT_THAT(titan.err, HasSubstr("note: the plan is for " + says));
      EXPECT_THAT(Contents(Path(name)),
                  HasSubstr("# The plan is for a model of which not all is trained: " + says));
    }
  }
  EXPECT_THAT(Run(asked + "megatron").err, Not(HasSubstr("the plan is for")));
  ASSERT_EQ(Run(asked + "torchtitan -o " + Path("whole.py")).exit_code, 0);
  EXPECT_THAT(Contents(Path("whole.py")), Not(HasSubstr("not all is trained")));
}

// Parameters are those of the whole model that are trained, however it is shared out.
TEST_F(PlanCommand, PlansAdaptersOnClustersAndSharedStages) {
  std::ofstream(Path("nodes.json"))
      << R"({"name": "nodes", "devices": [{"device": "h100", "count": 8}], "devices_per_node": 4,
             "between": {"bandwidth": 4e10}})";
  // Rank 16 beside q, k, v and o (4096 wide, k and v to 1024), gate, up and down (14336).
  const int64_t adapters = int64_t{32} * 16 * (2 * 8192 + 2 * 5120 + 3 * 18432);
  const auto bytes = [](const json& plan) {
    int64_t sum = 0;
    for (const json& stage : plan["stages"]) sum += stage["parameter_bytes"].get<int64_t>();
    return sum;
  };
  for (const std::string& hardware :
       {std::string("--device h200 --zero 1 --data-parallel 2"),
        std::string("--device h200 --tensor-parallel 2"), "--cluster " + Path("nodes.json"),
        "--cluster " + Path("nodes.json") + " --tensor-parallel 4 --overlap-sync"}) {
    SCOPED_TRACE(hardware);
    const std::string asked =
        "llama-3.1-8b --devices 8 --seq 1024 --micro-batch-size 1 --schedule 1f1b " + hardware;
    const json whole = Plan(asked), lora = Plan(asked + " --lora r=16,alpha=32");
    EXPECT_EQ(whole["parameters"], 8030261248);
    EXPECT_EQ(lora["parameters"], adapters);
    EXPECT_EQ(lora["adaptation"], "lora r=16,alpha=32,rslora=0,targets=all-linear; base bf16");
    // 2 bytes per frozen parameter instead of at least 10 (ZeRO 1 over 2).
    EXPECT_LT(bytes(lora), bytes(whole) / 4);
    EXPECT_GT(bytes(lora) * lora["tensor_parallel"].get<int64_t>(), int64_t{2} * 8030261248);
  }
}

// The name of a file says what it holds only where no flag does.
TEST_F(PlanCommand, AFormatThatIsTypedIsThatOfTheFile) {
  const std::string file = Path("plan.json");
  const std::string command = std::string("plan ") + kGpt2 + " --schedule 1f1b -o " + file;
  ASSERT_EQ(Run(command + " --format text").exit_code, 0);
  EXPECT_THAT(Contents(file), testing::StartsWith("gpt2 on 4 x h200"));
  ASSERT_EQ(Run(command).exit_code, 0);
  EXPECT_EQ(json::parse(Contents(file))["schedule"], "1f1b");
}

// The device's own where --bandwidth does not say another.
TEST_F(PlanCommand, TheBottleneckCountsTheLink) {
  std::ofstream(Path("slow.json")) << R"({"name": "slow", "fp32_flops": 1e12, "bf16_flops": 1e13,
      "memory_bandwidth": 1e12, "memory_bytes": 1e11, "link_bandwidth": 1e7})";
  const std::string asked = "gpt2 --devices 2 --objective bottleneck --device " + Path("slow.json");
  for (const auto& [flag, bandwidth] : {std::pair("", 1e7), std::pair(" --bandwidth 5MB/s", 5e6)}) {
    const json plan = Plan(asked + flag);
    EXPECT_DOUBLE_EQ(plan["bottleneck_seconds"].get<double>(),
                     2 * plan["stages"][0]["send_bytes"].get<double>() / bandwidth);
  }
}

TEST_F(PlanCommand, FlagsWithoutEffectAreNoted) {
  const std::string command = std::string("plan ") + kGpt2 + " --schedule 1f1b ";
  EXPECT_THAT(Run(command + "--sequence-parallel").err,
              HasSubstr("--sequence-parallel has no effect without --tensor-parallel"));
  EXPECT_THAT(Run(command + "--overlap-sync").err,
              HasSubstr("--overlap-sync has no effect without --data-parallel"));
  EXPECT_THAT(Run(command + "--zero 2").err,
              HasSubstr("--zero has no effect without --data-parallel"));
  EXPECT_EQ(Run(command + "--sequence-parallel --tensor-parallel 2").err, "");
  EXPECT_EQ(Run(command + "--zero 2 --data-parallel 2").err, "");
  EXPECT_EQ(Run(command + "--overlap-sync --data-parallel 2 --tensor-parallel 2").err, "");
  ExpectFailure("plan mlp --devices 2 --device h200 --seq 3", 2, "--seq has no effect on mlp");
  ExpectFailure("profile mlp --seq 3", 2, "--seq has no effect on mlp");
}

// Replicas of sluice sum gradients behind the last backward, and are priced so.
TEST_F(PlanCommand, OverlapIsNotedWhereReplicasAreThoseOfSluice) {
  for (const char* trained : {"", " --lora r=4,alpha=8"}) {
    const std::string asked =
        absl::StrCat("plan ", kGpt2, " --schedule 1f1b --data-parallel 2 --json", trained);
    const Outcome plain = Run(asked), overlapped = Run(asked + " --overlap-sync");
    EXPECT_EQ(plain.err, "");
    EXPECT_THAT(overlapped.err,
                HasSubstr("note: --overlap-sync has no effect on the times of this plan"));
    EXPECT_EQ(json::parse(plain.out)["step_seconds"], json::parse(overlapped.out)["step_seconds"]);
    // Others' replicas, which tensor-parallel devices are, can do both at once.
    EXPECT_EQ(Run(asked + " --overlap-sync --tensor-parallel 2").err, "");
  }
}

// `schedule show` has the timetable of a plan, its costs, and every format.
TEST_F(PlanCommand, ScheduleShowsWhatWasPlanned) {
  const std::string file = Path("plan.json");
  for (const char* asked :
       {"gpt2 --devices 4 --device h200",
        "gpt2 --devices 4 --device a100 --micro-batch-size 2 --schedule interleaved-zb --chunks 3",
        "gpt2 --devices 4 --device h200 --schedule zbv",
        "llama-3.1-8b --devices 8 --device h100 --tensor-parallel 2 --data-parallel 2 "
        "--schedule zbv"}) {
    SCOPED_TRACE(asked);
    ASSERT_EQ(Run(std::string("plan ") + asked + " -o " + file).exit_code, 0);
    const json plan = json::parse(Contents(file));
    const Outcome shown = Run("schedule show " + file + " --json");
    ASSERT_EQ(shown.exit_code, 0) << shown.err;
    const json run = json::parse(shown.out);
    EXPECT_EQ(run["schedule"], plan["schedule"]);
    EXPECT_EQ(run["stages"], plan["stages"].size());
    EXPECT_NEAR(run["bubble"].get<double>(), plan["bubble"].get<double>(), 1e-9);
    EXPECT_LE(run["makespan"].get<double>(), plan["step_seconds"].get<double>());
    EXPECT_GT(run["makespan"].get<double>(), 0.8 * plan["step_seconds"].get<double>());
    EXPECT_THAT(Run("schedule show " + file + " --format html").out, HasSubstr("\"seconds\":true"));
    const Outcome comms = Run("schedule show " + file + " --format comms-csv");
    EXPECT_EQ(comms.exit_code, 0) << comms.err;
    EXPECT_THAT(comms.out, HasSubstr("WAIT_REDUCE_GRAD"));
    EXPECT_EQ(Run("schedule check " + file).exit_code, 0);
    // A plan's costs are seconds, which a picture says; other costs are in units of their own.
    const std::string draw = "schedule show " + file + " --format svg --width 700";
    EXPECT_THAT(Run(draw).out, testing::ContainsRegex(">time \\((ms|s)\\)<"));
    EXPECT_THAT(Run(draw + " --cost F=1,B=2").out, HasSubstr(">time (units of the costs)<"));
    EXPECT_EQ(json::parse(Run("schedule show " + file + " --json --cost F=1,B=2").out)["work"][0],
              run["micro_batches"].get<double>() * 3 * run["chunks"].get<double>());
  }
  json plan = json::parse(Contents(file));
  plan.erase("costs");
  std::ofstream(file) << plan;
  EXPECT_THAT(Run("schedule show " + file).err, HasSubstr("has no field 'costs'"));
  plan["costs"] = {{"F", {1}}};
  std::ofstream(file) << plan;
  const Outcome wrong = Run("schedule show " + file);
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("plan.json, field 'costs': line 1, column"));
  const Outcome trained = Run("train --plan " + file + " --steps 1 --data " + file);
  EXPECT_EQ(trained.exit_code, 2);
  EXPECT_THAT(trained.err,
              HasSubstr("field 'tensor_parallel' is 2, and more than 1 cannot be trained yet"));
}

// Limits of time: a question that is too large for its limit, and limits that are none.
TEST_F(PlanCommand, TheTimeLimitIsKept) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome many =
      Run("plan gpt2 --device h200 --devices 4000 --layers 4000 --time-limit 1s --json");
  const auto end = std::chrono::steady_clock::now();
  // A slow machine may find no plan in that time, which is an answer, too.
  if (many.exit_code == 0) {
    EXPECT_THAT(many.err, HasSubstr("--time-limit was over before the bytes"));
    EXPECT_EQ(json::parse(many.out)["stages"].size(), 4000u);
  } else {
    EXPECT_EQ(many.exit_code, 3) << many.err;
    EXPECT_THAT(many.err, HasSubstr("no plan was found within the time limit"));
  }
  // 2 s where nobody else computes; without the limit it is minutes.
  EXPECT_LT(end - start, std::chrono::seconds(90));
  for (const char* years : {"1e10s", "9223372036854775808", "1e308"}) {
    const Outcome outcome = Run(std::string("plan ") + kGpt2 + " --time-limit " + years);
    EXPECT_EQ(outcome.exit_code, 0) << years << "\n" << outcome.err;
  }
}

TEST_F(PlanCommand, RefusesBadInputByName) {
  const std::string plan = std::string("plan ") + kGpt2;
  ExpectFailure("plan gpt2 --devices 15 --device h200", 2, "more than the 14 layers");
  ExpectFailure("plan gpt2 --devices 0", 2, "--devices must be at least 1, not 0");
  ExpectFailure(plan + " --micro-batches 0", 2, "--micro-batches must be at least 1, not 0");
  ExpectFailure(plan + " --schedule 1f2b", 2, "no schedule '1f2b'");
  ExpectFailure(plan + " --memory 8XB", 2, "--memory: '8XB'");
  ExpectFailure(plan + " --bandwidth 0GB/s", 2, "--bandwidth: '0GB/s'");
  ExpectFailure(plan + " --latency nan", 2, "--latency: 'nan'");
  ExpectFailure(plan + " --partition 0-3,5-13", 2, "no stage has layer 4");
  ExpectFailure(plan + " --global-batch 63", 2, "--global-batch 63 is no multiple");
  ExpectFailure(plan + " --recompute some", 2, "--recompute is 'some'");
  ExpectFailure(plan + " --dtype fp8", 2, "--dtype is 'fp8'");
  ExpectFailure(plan + " --data-parallel 3", 2, "data 3 x tensor 1 does not divide them");
  ExpectFailure(plan + " --data-parallel none", 2, "--data-parallel is 'none'");
  ExpectFailure(plan + " --tensor-parallel 0", 2, "--tensor-parallel is '0'");
  ExpectFailure(plan + " --cluster x.json", 2, "leave out --device");
  ExpectFailure("plan gpt2 --devices 4 --cluster none.json", 2, "none.json");
  ExpectFailure(plan + " --zero 3", 2, "--zero is '3'");
  ExpectFailure(plan + " --gap few", 2, "--gap is 'few'");
  ExpectFailure(plan + " --time-limit soon", 2, "--time-limit: 'soon'");
  ExpectFailure("plan gpt2 --device h200 --devices 8 --time-limit 0.000001", 3,
                "no plan was found within the time limit");
  ExpectFailure(plan + " --time-limit 0", 2, "--time-limit: '0' leaves no time");
  ExpectFailure(plan + " --time-limit 1e-320", 2, "--time-limit: '1e-320' leaves no time");
  ExpectFailure(plan + " --micro-batch-size auto --global-batch 64 --micro-batches 4", 2,
                "leave out --micro-batches");
  ExpectFailure(plan + " --micro-batch-size auto --micro-batches 8", 2,
                "--micro-batches 8 beside --micro-batch-size auto");
  ExpectFailure(plan + " --data-parallel auto --micro-batches 8", 2,
                "--micro-batches 8 beside --data-parallel auto");
  ExpectFailure("plan mlp --devices 2 --tensor-parallel 2", 2, "transformers only");
  ExpectFailure("plan gpt7 --devices 4", 2, "no preset model 'gpt7'");
  ExpectFailure("plan none.json --devices 4", 2, "none.json");
  ExpectFailure("plan gpt2 --devices 4 --device tpu", 2, "no device 'tpu'");
  ExpectFailure("profile gpt2 --device tpu", 2, "expected cpu or cuda");
  ExpectFailure("profile gpt2 --device cuda --stages 2", 2, "on a GPU a layer is measured alone");
}

// Where nobody says how many samples a step has: as many as where nothing is to be chosen.
TEST_F(PlanCommand, WaysToUseDevicesAreComparedForTheUsualSamples) {
  const auto samples = [&](const std::string& flags) {
    const json plan = Plan(std::string(kGpt2) + " --schedule 1f1b " + flags);
    return plan["data_parallel"].get<int>() * plan["micro_batches"].get<int>() *
           plan["micro_batch_size"].get<int>();
  };
  EXPECT_EQ(samples(""), 16 * 4);
  EXPECT_EQ(samples("--micro-batch-size auto"), 16 * 4);
  EXPECT_EQ(samples("--data-parallel auto"), 16 * 4);
  EXPECT_EQ(samples("--data-parallel auto --micro-batch-size 2"), 16 * 2);
  EXPECT_EQ(samples("--tensor-parallel auto --micro-batches 8"), 8 * 4);
}

TEST_F(PlanCommand, UsesTheDevicesInTheBestOfManyWays) {
  const std::string open =
      "llama-3.1-8b --devices 8 --device h100 --global-batch 32 --seq 2048 --zero 1 "
      "--data-parallel auto --tensor-parallel auto --micro-batch-size auto --gap 5% --time-limit "
      "600";
  const json best = Plan(open);
  const int data = best["data_parallel"], tensor = best["tensor_parallel"];
  const int pipeline = best["pipeline_parallel"];
  EXPECT_EQ(data * tensor * pipeline, 8);
  EXPECT_EQ(data * best["micro_batches"].get<int>() * best["micro_batch_size"].get<int>(), 32);
  const double seconds = best["step_seconds"];
  EXPECT_NEAR(best["tokens_per_second"].get<double>() * seconds, 32 * 2048, 1);
  for (const char* fixed : {"--data-parallel 1 --tensor-parallel 1",
                            "--data-parallel 2 "
                            "--tensor-parallel 1",
                            "--data-parallel 1 --tensor-parallel 2"}) {
    const json other = Plan(
        "llama-3.1-8b --devices 8 --device h100 --global-batch 32 --seq 2048 --zero 1 "
        "--micro-batch-size 1 " +
        std::string(fixed));
    EXPECT_GE(other["step_seconds"].get<double>() * 1.05, seconds) << fixed;
    EXPECT_LE(best["lower_bound"].get<double>(), other["step_seconds"].get<double>()) << fixed;
  }
}

TEST_F(PlanCommand, PlansForAClusterOfDifferentDevices) {
  std::ofstream(Path("mixed.json"))
      << R"({"name": "mixed", "devices": [{"device": "v100", "count": 2}, {"device": "h100", "count": 2}],
             "devices_per_node": 2, "inside": {"bandwidth": 3e11, "latency": 5e-6},
             "between": {"bandwidth": 2.5e10, "latency": 1e-5}})";
  const json plan = Plan("gpt2-xl --devices 4 --cluster " + Path("mixed.json") +
                         " --micro-batch-size 1 --seq 512 --recompute full --schedule 1f1b");
  // The faster devices get more layers, wherever they are in the pipeline.
  std::vector<int> layers;
  for (const json& stage : plan["stages"]) {
    layers.push_back(stage["last_layer"].get<int>() - stage["first_layer"].get<int>() + 1);
  }
  // Each rank says which kind it holds, and which devices: those of the file that are of this kind.
  std::map<std::string, std::set<int>> numbers;
  int fewest = layers[0], most = 0;
  for (const json& stage : plan["stages"]) {
    const int layer_count = layers[stage["stage"].get<size_t>()];
    EXPECT_EQ(stage["first_device"], stage["last_device"]);
    numbers[stage["device"]].insert(stage["first_device"].get<int>());
    if (stage["device"] == "v100") most = std::max(most, layer_count);
    if (stage["device"] == "h100") fewest = std::min(fewest, layer_count);
  }
  EXPECT_EQ(numbers, (std::map<std::string, std::set<int>>{{"v100", {0, 1}}, {"h100", {2, 3}}}));
  std::sort(layers.begin(), layers.end());
  EXPECT_GT(layers[2], 1.5 * layers[1]);
  // The other orders are told apart.
  std::set<std::string> whats;
  for (const json& rejected : plan["rejected"]) whats.insert(rejected["what"]);
  EXPECT_EQ(whats.size(), 5u);
  EXPECT_THAT(whats, testing::Each(testing::ContainsRegex("pipeline 4 \\(.*2 v100|1 v100, ")));
}

// Ranks of several devices hold neighbours of one kind.
TEST_F(PlanCommand, SaysWhichDevicesEachRankOfAClusterHolds) {
  std::ofstream(Path("mixed.json"))
      << R"({"name": "mixed", "devices": [{"device": "a100", "count": 2}, {"device": "h100", "count": 4}],
             "devices_per_node": 2, "inside": {"bandwidth": 3e11, "latency": 5e-6},
             "between": {"bandwidth": 2.5e10, "latency": 1e-5}})";
  const std::string words =
      "gpt2-medium --devices 6 --tensor-parallel 2 --data-parallel 1 --cluster " +
      Path("mixed.json") + " --micro-batch-size 1 --seq 512 --schedule 1f1b";
  const json plan = Plan(words);
  std::string devices;
  for (const json& stage : plan["stages"]) {
    const int first = stage["first_device"];
    EXPECT_EQ(stage["last_device"], first + 1);
    EXPECT_EQ(stage["device"], first < 2 ? "a100" : "h100");
    devices += std::to_string(first);
  }
  // Of two ranks of one kind the first has the first devices.
  EXPECT_THAT(devices, testing::AnyOf("024", "204", "240"));
  const std::string lines = devices == "024" ? "rank 0 on a100 0-1, ranks 1-2 on h100 2-5"
                            : devices == "204"
                                ? "rank 0 on h100 2-3, rank 1 on a100 0-1, rank 2 on h100 4-5"
                                : "ranks 0-1 on h100 2-5, rank 2 on a100 0-1";
  EXPECT_THAT(Run("plan " + words).out, testing::HasSubstr(lines));
  EXPECT_THAT(Run("plan " + words + " --format megatron").err, testing::HasSubstr(lines));
  const std::string drawn = Run("plan " + words + " --format svg").out;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    EXPECT_THAT(drawn, HasSubstr(absl::StrCat(">rank ", rank, " \u00b7 ",
                                              devices[rank] == '0' ? "a100<" : "h100<")));
  }
}

// A name from a cluster's file leaves room for the bars.
TEST_F(PlanCommand, ShowsTheBeginningOfALongNameOfADevice) {
  std::ofstream(Path("mixed.json"))
      << R"({"name": "mixed", "devices": [{"device": "h200", "count": 1},
      {"device": {"name": "µ-device & more, which <nobody> sells", "fp32_flops": 6e13,
                  "bf16_flops": 9e14, "memory_bandwidth": 4e12}, "count": 1}],
      "devices_per_node": 2, "inside": {"bandwidth": 3e11}})";
  const std::string drawn = Run("plan gpt2 --devices 2 --micro-batch-size 1 --schedule 1f1b "
                                "--format svg --cluster " +
                                Path("mixed.json"))
                                .out;
  EXPECT_THAT(drawn, HasSubstr(" \u00b7 h200<"));
  EXPECT_THAT(drawn, HasSubstr(" \u00b7 µ-device &amp; m\u2026<"));
}

// No variant with less memory is faster than the best plan, whichever devices have how much.
TEST_F(PlanCommand, SmallDevicesOfAClusterStaySmallWithLessMemory) {
  std::ofstream(Path("mixed.json")) << R"({"name": "mixed", "devices": [
      {"device": "h200", "count": 2},
      {"device": {"name": "small", "fp32_flops": 6e13, "bf16_flops": 9e14, "memory_bandwidth": 4e12,
                  "memory_bytes": 2e10}, "count": 2}],
      "devices_per_node": 4, "inside": {"bandwidth": 3e11}})";
  const json plan = Plan(
      "llama-3.1-8b --devices 4 --micro-batch-size 1 --micro-batches 4 --seq 2048 --schedule "
      "1f1b --recompute none --pareto --cluster " +
      Path("mixed.json"));
  ASSERT_GE(plan["pareto"].size(), 1u);
  for (const json& point : plan["pareto"]) {
    EXPECT_GE(point["step_seconds"].get<double>(), plan["step_seconds"].get<double>() * 0.997);
  }
}

// Variants of a plan for the bottleneck have a step, too, and say which number is which.
TEST_F(PlanCommand, VariantsOfTheBottleneckSayWhatAStepTakes) {
  const json plan = Plan(std::string(kGpt2) +
                         " --layers 8 --schedule 1f1b --objective bottleneck --what-if --pareto");
  const double step = plan["step_seconds"], bottleneck = plan["bottleneck_seconds"];
  EXPECT_GT(step, 16 * bottleneck);
  // The first may be one of as small a bottleneck that takes less memory.
  EXPECT_NEAR(plan["pareto"][0]["step_seconds"].get<double>(), step, 0.1 * step);
  EXPECT_NEAR(plan["pareto"][0]["bottleneck_seconds"].get<double>(), bottleneck,
              0.003 * bottleneck);
  for (const json& variant : plan["what_if"]) {
    EXPECT_GT(variant["step_seconds"].get<double>(),
              16 * variant["bottleneck_seconds"].get<double>())
        << variant;
  }
}

TEST_F(PlanCommand, SaysWhatMoreAndFewerWouldChange) {
  const std::string question = std::string(kGpt2) + " --layers 8 --schedule 1f1b --memory ";
  const json plan = Plan(question + "2500MiB --what-if --pareto");
  const double seconds = plan["step_seconds"];
  std::set<std::string> whats;
  for (const json& variant : plan["what_if"]) {
    whats.insert(variant["what"]);
    if (variant["what"] == "1 fewer device") continue;
    ASSERT_TRUE(variant.contains("step_seconds")) << variant;
    EXPECT_LE(variant["step_seconds"].get<double>(), seconds * 1.003) << variant;
  }
  EXPECT_EQ(whats, (std::set<std::string>{"1 more device", "1 fewer device",
                                          "10 GiB more memory per device", "unlimited memory",
                                          "twice the bandwidth"}));
  ASSERT_GE(plan["pareto"].size(), 2u);
  for (size_t i = 1; i < plan["pareto"].size(); ++i) {
    const json &larger = plan["pareto"][i - 1], &smaller = plan["pareto"][i];
    EXPECT_LT(smaller["peak_bytes"], larger["peak_bytes"]);
    EXPECT_GE(smaller["step_seconds"], larger["step_seconds"]);
    // With that amount of memory the planner finds that plan, or an equally good one.
    const json again = Plan(question + std::to_string(smaller["peak_bytes"].get<int64_t>()));
    EXPECT_LE(again["step_seconds"].get<double>(), smaller["step_seconds"].get<double>() * 1.003);
  }
}

// What a variant says is what the same question with that many devices answers.
TEST_F(PlanCommand, HalfTheDevicesArePlannedAsIfAskedFor) {
  const std::string question =
      "gpt2 --layers 4 --global-batch 8 --micro-batch-size 1 --schedule 1f1b --data-parallel auto "
      "--device a100 --devices ";
  const json four = Plan(question + "4 --what-if");
  for (const json& variant : four["what_if"]) {
    const bool half = variant["what"] == "half the devices";
    if (!half && variant["what"] != "twice the devices") continue;
    const json plan = Plan(question + (half ? "2" : "8"));
    const double seconds = plan["step_seconds"];
    EXPECT_NEAR(variant["step_seconds"].get<double>(), seconds, seconds * 0.003) << variant;
  }
  EXPECT_EQ(four["what_if"][1]["what"], "half the devices");
  const json one = Plan(question + "1 --what-if");
  for (const json& variant : one["what_if"]) {
    EXPECT_EQ(variant["what"].get<std::string>().find("fewer"), std::string::npos) << variant;
    EXPECT_NE(variant["what"], "half the devices");
  }
}

// Of micro-batches whose layers fit where no run of them does, too: another size has a plan then.
TEST_F(PlanCommand, AChoiceOfSizesFindsWhatFits) {
  const std::string asked = "char-gpt --devices 2 --device a100 --schedule 1f1b --global-batch 32";
  const json smallest = Plan(asked + " --micro-batch-size 1");
  int64_t needed = 0;
  for (const json& stage : smallest["stages"])
    needed = std::max(needed, stage["peak_bytes"].get<int64_t>());
  int others = 0;
  for (int percent = 90; percent <= 110; ++percent) {
    const std::string limit = " --memory " + std::to_string(needed * percent / 100) + "B";
    SCOPED_TRACE(limit);
    const Outcome one = Run(absl::StrCat("plan ", asked, limit, " --micro-batch-size 1"));
    const Outcome any = Run(absl::StrCat("plan ", asked, limit, " --micro-batch-size auto --json"));
    if (one.exit_code == 0) {
      EXPECT_EQ(any.exit_code, 0) << any.err;
    }
    if (any.exit_code != 0) continue;
    const json plan = json::parse(any.out);
    EXPECT_LE(plan["lower_bound"].get<double>(), plan["step_seconds"].get<double>());
    EXPECT_EQ(plan["rejected"].size(), 5) << "one for each other size";
    for (const json& rejected : plan["rejected"])
      others += rejected.dump().find("no plan fits into") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(others, 0);
}

// Qwen3's logits for 16,384 tokens take 4.6 GiB at a time.
TEST_F(PlanCommand, HeadRowsSaveMemoryAndAreSaidWhereNothingFits) {
  const std::string asked =
      "plan qwen3-0.6b --devices 2 --device h200 --seq 1024 --micro-batch-size 16 "
      "--micro-batches 2 --schedule 1f1b --recompute full --memory 8GiB ";
  const Outcome whole = Run(asked);
  EXPECT_EQ(whole.exit_code, 3);
  EXPECT_THAT(whole.err, HasSubstr("The logits of 16384 tokens at a time take 4.64 GiB of it; with "
                                   "--head-rows 2048 they take 594 MiB"));
  const Outcome blocks = Run(asked + "--head-rows 2048 --json");
  ASSERT_EQ(blocks.exit_code, 0) << blocks.err;
  const json plan = json::parse(blocks.out);
  EXPECT_EQ(plan["model_config"]["head_rows"], 2048);
  const json fewer = Plan(asked.substr(5) + "--head-rows 16");
  EXPECT_GT(fewer["step_seconds"], plan["step_seconds"]) << "products of few rows are slow";
}

// Beside the scores of 16 samples, 12 heads and 1024 x 1024 positions in bf16, cuDNN's attention
// keeps a sum per row, and a counter.
TEST_F(PlanCommand, CudnnsAttentionHasItsOwnTimeAndWorkArea) {
  const std::string asked =
      "gpt2 --devices 2 --device h200 --micro-batch-size 16 --micro-batches 4 --schedule 1f1b "
      "--recompute none --partition 0-6,7-13";
  const json own = Plan(asked), cudnn = Plan(asked + " --attention cudnn");
  EXPECT_FALSE(own.contains("attention"));
  EXPECT_FALSE(Plan(asked + " --attention own").contains("attention"));
  EXPECT_EQ(cudnn["attention"], "cudnn");
  EXPECT_LT(cudnn["step_seconds"], own["step_seconds"]);
  const auto bytes = [](const json& plan) {
    return plan["stages"][0]["peak_bytes"].get<int64_t>();
  };
  constexpr int64_t kRows = int64_t{16} * 12 * 1024;
  EXPECT_GT(bytes(cudnn), bytes(own));
  EXPECT_LE(bytes(cudnn) - bytes(own), kRows * 1024 * 2 + kRows * 4 + 256);
  ExpectFailure("plan gpt2 --devices 2 --attention cudnn", 2, "not of processors");
  ExpectFailure("plan gpt2 --devices 2 --device h200 --attention cudnn --dtype fp32", 2, "bf16");
  ExpectFailure("plan gpt2 --devices 2 --device h200 --attention cudnn --pack", 2, "--pack");
  ExpectFailure("plan gpt2 --devices 4 --device h200 --attention cudnn --tensor-parallel 2", 2,
                "--attention");
}

TEST_F(PlanCommand, RmsNormsArePlannedFor) {
  const std::string tiny =
      "char-gpt --layers 4 --dim 64 --heads 2 --seq 32 --devices 2 --device h200";
  const json layer = Plan(tiny), rms = Plan(tiny + " --norm rms");
  EXPECT_FALSE(layer["model_config"].contains("norm"));
  EXPECT_EQ(rms["model_config"]["norm"], "rms");
  int64_t layer_bytes = 0, rms_bytes = 0;
  for (size_t stage = 0; stage < 2; ++stage) {
    layer_bytes += layer["stages"][stage]["peak_bytes"].get<int64_t>();
    rms_bytes += rms["stages"][stage]["peak_bytes"].get<int64_t>();
  }
  EXPECT_LT(rms_bytes, layer_bytes);
}

// Layers are counted as far as whole numbers go, and not from the largest to the least.
TEST_F(PlanCommand, NumbersInNamesOfLayersDoNotWrapAround) {
  const std::string profile = Path("profile.json");
  ASSERT_EQ(
      Run("roofline gpt2 --layers 4 --dim 64 --heads 2 --vocab 64 --profile " + profile).exit_code,
      0);
  json named = json::parse(Contents(profile));
  const char* names[] = {"x 2147483645", "x 2147483646", "x 2147483647", "x -2147483648", "y", "z"};
  for (size_t i = 0; i < std::size(names); ++i) named["layers"][i]["name"] = names[i];
  std::ofstream(profile) << named;
  EXPECT_THAT(Run("plan " + profile + " --devices 1", 160).out,
              HasSubstr("x 2147483645-2147483647, x -2147483648, y, z"));
}

TEST_F(PlanCommand, AProfileIsMeasuredAndPlannedFrom) {
  const std::string profile = Path("profile.json");
  const Outcome measured =
      Run("profile char-gpt --layers 2 --dim 64 --heads 2 --seq 32 --micro-batch-size 2 "
          "--repetitions 2 -o " +
          profile);
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  const json layers = json::parse(Contents(profile))["layers"];
  ASSERT_EQ(layers.size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GT(layers[i]["forward_seconds"], 0.0);
    EXPECT_GT(layers[i]["weight_grad_seconds"], 0.0);
    EXPECT_LE(layers[i]["forward_seconds_min"], layers[i]["forward_seconds"]);
  }
  const json plan = Plan(profile + " --devices 2 --micro-batches 4");
  EXPECT_EQ(plan["model"], "char-gpt");
  EXPECT_EQ(plan["micro_batch_size"], 2);
  EXPECT_EQ(plan["seq"], 32);
  EXPECT_EQ(plan["model_config"]["dim"], 64);
  ExpectFailure("plan " + profile + " --devices 2 --seq 64", 2, "--seq cannot change");
  ExpectFailure("plan " + profile + " --devices 2 --norm rms", 2, "--norm cannot change");
  ExpectFailure("plan " + profile + " --devices 2 --dtype bf16", 2, "--dtype cannot change");
  ExpectFailure("plan " + profile + " --devices 2 --cluster " + Path("none.json"), 2,
                "--cluster cannot change");
  ExpectFailure("plan " + profile + " --devices 2 --assume llama", 2, "--assume cannot change");
  EXPECT_EQ(Run("plan " + profile + " --devices 2 --optimizer adamw").exit_code, 0);
  ExpectFailure("plan " + profile + " --devices 2 --optimizer sgd", 2,
                "--optimizer cannot change what " + profile +
                    " was measured for: 2 x 32 tokens in "
                    "fp32 with adamw on ");
  EXPECT_THAT(Run("plan " + profile + " --devices 2 --data-parallel 2 --overlap-sync").err,
              HasSubstr("note: --overlap-sync has no effect on the times of this plan"));
  std::ofstream(profile, std::ios::binary) << "{\"format\": \"sluice profile\", \"version\": 1}";
  ExpectFailure("plan " + profile + " --devices 2", 2, "field 'model' is missing");
}

}  // namespace
}  // namespace sluice
