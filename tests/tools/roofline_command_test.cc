// `sluice roofline` run as a script runs it: its table, its JSON, the profile that it writes for
// `sluice plan`, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/models/data/files.h"
#include "tests/shared_folder.h"
#include "tests/tools/sluice_process.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// The step of GPT-2 124M that was measured on an H200.
constexpr char kMeasured[] = "roofline gpt2 --vocab 50304 --micro-batch-size 16 --micro-batches 4";

std::string Printed(const std::string& arguments) {
  const ProcessResult result = RunSluice(Words(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

json Json(const std::string& arguments) { return json::parse(Printed(arguments + " --json")); }

std::string Refused(const std::string& arguments) {
  const ProcessResult result = RunSluice(Words(arguments));
  EXPECT_EQ(result.exit_code, 2) << arguments;
  EXPECT_EQ(result.out, "") << arguments;
  return result.err;
}

json Total(const json& rows, const char* field) {
  json sum = 0;
  for (const json& row : rows) {
    sum = row[field].is_number_integer() ? json(sum.get<int64_t>() + row[field].get<int64_t>())
                                         : json(sum.get<double>() + row[field].get<double>());
  }
  return sum;
}

TEST(RooflineCommand, TableFitsATerminalAndEndsWithTheMfu) {
  const std::string out = Printed(kMeasured);
  for (const absl::string_view line : absl::StrSplit(out, '\n'))
    EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(out, HasSubstr("4 micro-batches of 16 x 1024 tokens in bf16"));
  EXPECT_THAT(out, HasSubstr("989.5 TFLOP/s, 4.8 TB/s"));
  EXPECT_THAT(out, HasSubstr("product, forward                196    16.20"));
  EXPECT_THAT(out, HasSubstr("block 0-11            F           8    257.7"));
  EXPECT_THAT(out, HasSubstr("\n  expected   115 ms   MFU 46.0 %"));
}

TEST(RooflineCommand, JsonHasTheTotalsOfItsRows) {
  const json step = Json(kMeasured);
  for (const char* field : {"launches", "flops", "bytes", "bound_seconds", "expected_seconds"}) {
    EXPECT_NEAR(Total(step["kernels"], field).get<double>() / step[field].get<double>(), 1, 1e-9)
        << field;
  }
  EXPECT_EQ(step["launches"], 1389);
  EXPECT_EQ(step["device"], "h200");
  EXPECT_EQ(step["peak_flops_per_second"], 989.5e12);
  EXPECT_DOUBLE_EQ(
      step["expected_mfu"].get<double>(),
      step["model_flops"].get<double>() / (step["expected_seconds"].get<double>() * 989.5e12));
  // 6 FLOPs for each parameter of a product and each token, and attention's at half (PaLM).
  const double per_token = 6.0 * (12 * 12 * 768 * 768 + 50304 * 768 + 12 * 1024 * 768);
  EXPECT_DOUBLE_EQ(step["model_flops"].get<double>(), per_token * 4 * 16 * 1024);
}

// The golden numbers of one product: 2 rows in out FLOPs, its operands read and its result written.
TEST(RooflineCommand, HeadOfATinyModelIsCountedByHand) {
  const json step = Json(
      "roofline gpt2 --layers 1 --dim 64 --heads 2 --vocab 128 --seq 32 --micro-batch-size 2 "
      "--micro-batches 1");
  const json head = step["layers"].back();
  EXPECT_EQ(head["name"], "head");
  constexpr double kRows = 64, kDim = 64, kVocab = 128, kProduct = 2 * kRows * kDim * kVocab;
  for (const char* pass : {"F", "I", "W"}) EXPECT_EQ(head[pass]["flops"], kProduct) << pass;
  // The norm, with its statistics, gain and bias; the product; cross-entropy, whose logits are read
  // and become their gradient; and the total.
  const double norm = 2 * 2 * kRows * kDim + 2 * 4 * (kRows + kDim);
  const double product = 2 * (kRows * kDim + kDim * kVocab + kRows * kVocab);
  const double entropy = 2 * 2 * kRows * kVocab + kRows * (4 + 12) + kRows * 12;
  EXPECT_EQ(head["F"]["bytes"], norm + product + entropy);
  EXPECT_EQ(head["F"]["launches"], 4);
}

TEST(RooflineCommand, DevicesDifferAsTheirDataSheetsDo) {
  const json h100 = Json(std::string(kMeasured) + " --device h100");
  const json h200 = Json(std::string(kMeasured) + " --device h200");
  EXPECT_EQ(h100["flops"], h200["flops"]);
  EXPECT_EQ(h100["bytes"], h200["bytes"]);
  EXPECT_GT(h100["bound_seconds"], h200["bound_seconds"]);  // of less bandwidth
  EXPECT_THAT(Printed(std::string(kMeasured) + " --device b200"), HasSubstr("is an assumption"));
}

TEST(RooflineCommand, AttentionByCudnnTakesLessTime) {
  const json own = Json(kMeasured), cudnn = Json(std::string(kMeasured) + " --attention cudnn");
  EXPECT_LT(cudnn["expected_seconds"], own["expected_seconds"]);
}

TEST(RooflineCommand, GraphsAreUsualAndTakeLessTime) {
  const std::string without = std::string(kMeasured) + " --no-cuda-graphs";
  const json graphs = Json(kMeasured), one_by_one = Json(without);
  EXPECT_EQ(graphs["cuda_graphs"], true);
  EXPECT_EQ(one_by_one["cuda_graphs"], false);
  EXPECT_EQ(graphs["launches"], one_by_one["launches"]);
  EXPECT_NEAR(
      one_by_one["expected_seconds"].get<double>() - graphs["expected_seconds"].get<double>(),
      0.6e-6 * graphs["launches"].get<double>(), 1e-9);
  EXPECT_THAT(Printed(without), HasSubstr("recomputation: none, no CUDA graphs"));
}

TEST(RooflineCommand, RecomputationTakesTime) {
  const auto seconds = [](const std::string& recompute) {
    return Json("roofline gpt2 --layers 2 --micro-batches 1 --recompute " +
                recompute)["expected_seconds"]
        .get<double>();
  };
  EXPECT_LT(seconds("none"), seconds("selective"));
  EXPECT_LT(seconds("selective"), seconds("full"));
}

// What is trained is printed, and plans of it take the same time, by themselves and from a profile.
TEST(RooflineCommand, PlansOfAdaptersAndPackedDocumentsTakeTheSameTime) {
  const TempFolder folder;
  const std::string profile = folder / "adapters.json";
  const std::string model = "llama-3.1-8b --layers 4 --seq 1024 --micro-batch-size 2 ";
  const std::string trained = "--lora r=16,dropout=0.1 ";
  const std::string flags = "--micro-batches 4 ";
  EXPECT_THAT(Printed("roofline " + model + flags + trained + "--pack --optimizer sgd"),
              HasSubstr("\n  SGD; packed documents; lora r=16,alpha=32,dropout=0.1,"));
  const json step = Json("roofline " + model + flags + trained + "--profile " + profile);
  EXPECT_THAT(step["adaptation"].get<std::string>(), HasSubstr("dropout=0.1"));
  EXPECT_FALSE(step.contains("optimizer"));
  const std::string one = "--devices 1 --schedule 1f1b --recompute none --json ";
  const json plan = json::parse(Printed("plan " + profile + " --memory 141GB " + one + flags));
  EXPECT_NEAR(plan["step_seconds"].get<double>() / step["expected_seconds"].get<double>(), 1, 0.01);
  const json direct =
      json::parse(Printed("plan " + model + "--device h200 " + one + flags + trained));
  EXPECT_DOUBLE_EQ(direct["step_seconds"].get<double>(), plan["step_seconds"].get<double>());
  const json packed =
      json::parse(Printed("plan " + model + "--device h200 --pack " + one + flags + trained));
  EXPECT_GT(packed["step_seconds"], plan["step_seconds"]);
  EXPECT_LT(packed["step_seconds"].get<double>(), 1.01 * plan["step_seconds"].get<double>());
}

// "1,234" and "5.67" as numbers.
double NumberOf(absl::string_view cell) {
  return std::stod(absl::StrReplaceAll(absl::StripAsciiWhitespace(cell), {{",", ""}}));
}

// Rows of models/kernels/cuda/README.md by their first cell.
std::map<std::string, std::vector<std::string>> PageRows() {
  std::ifstream file(SourceFolder() / "models/kernels/cuda/README.md");
  std::map<std::string, std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells = absl::StrSplit(line, " | ");
    if (cells.size() > 1) rows[cells[0].substr(std::min<size_t>(2, cells[0].size()))] = cells;
  }
  return rows;
}

// The page has the numbers that the command prints now.
TEST(RooflineCommand, ThePageOfTheKernelsHasItsNumbers) {
  const auto rows = PageRows();
  const std::string measured = std::string(kMeasured) + " --no-cuda-graphs";
  const json h100 = Json(measured + " --device h100"), b200 = Json(measured + " --device b200");
  const json h200 = Json(measured);
  const auto bound_of = [](const json& step, const std::string& kernel) {
    for (const json& row : step["kernels"]) {
      if (row["kernel"] == kernel) return row["bound_seconds"].get<double>() * 1e3;
    }
    return -1.0;
  };
  for (const json& kernel : h200["kernels"]) {
    const std::string name = kernel["kernel"];
    SCOPED_TRACE(name);
    ASSERT_TRUE(rows.contains(name));
    const std::vector<std::string>& cells = rows.at(name);
    ASSERT_EQ(cells.size(), 9u);
    EXPECT_EQ(NumberOf(cells[1]), kernel["launches"]);
    EXPECT_NEAR(NumberOf(cells[2]), kernel["flops"].get<double>() * 1e-12, 0.006);
    EXPECT_NEAR(NumberOf(cells[3]), kernel["bytes"].get<double>() * 1e-9, 0.006);
    EXPECT_NEAR(NumberOf(cells[4]), bound_of(h100, name), 0.006);
    EXPECT_NEAR(NumberOf(cells[5]), bound_of(h200, name), 0.006);
    EXPECT_NEAR(NumberOf(cells[6]), bound_of(b200, name), 0.006);
  }
  const std::vector<std::string>& step = rows.at("**the step**");
  EXPECT_NEAR(NumberOf(step[7]), h200["expected_seconds"].get<double>() * 1e3, 0.006);

  const std::map<std::string, std::string> models = {
      {"GPT-2 124M, 16", "gpt2 --vocab 50304 --micro-batch-size 16"},
      {"GPT-2 1.5B, 8", "gpt2-xl --vocab 50304 --micro-batch-size 8"},
      {"Qwen3-0.6B, 16", "qwen3-0.6b --seq 1024 --micro-batch-size 16"}};
  std::map<std::string, std::string> runs = models;
  for (const auto& [name, model] : models) {
    runs[name + ", cuDNN's attention"] = model + " --attention cudnn";
  }
  for (const auto& [name, model] : runs) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(rows.contains(name));
    for (size_t device = 0; device < 3; ++device) {
      const json run = Json(absl::StrCat("roofline ", model, " --micro-batches 4 --device ",
                                         std::vector<const char*>{"h100", "h200", "b200"}[device]));
      EXPECT_NEAR(NumberOf(rows.at(name)[1 + device]), run["bound_mfu"].get<double>() * 100, 0.06);
      EXPECT_NEAR(NumberOf(rows.at(name)[4 + device]), run["expected_mfu"].get<double>() * 100,
                  0.06);
    }
  }
}

// The plan of one device takes the expected time, but for launches that all layers share.
TEST(RooflineCommand, PlansTakeTheSameTime) {
  const TempFolder folder;
  const std::string profile = folder / "h200.json";
  const json step = Json(std::string(kMeasured) + " --profile " + profile);
  const json plan = json::parse(Printed("plan " + profile +
                                        " --devices 1 --device h200 --memory 141GB --schedule 1f1b "
                                        "--micro-batches 4 --json"));
  EXPECT_NEAR(plan["step_seconds"].get<double>() / step["expected_seconds"].get<double>(), 1, 0.01);
  // It prices the device in the same way by itself.
  const json direct = json::parse(
      Printed("plan gpt2 --vocab 50304 --micro-batch-size 16 --devices 1 --device h200 --schedule "
              "1f1b --micro-batches 4 --recompute none --json"));
  EXPECT_DOUBLE_EQ(direct["step_seconds"].get<double>(), plan["step_seconds"].get<double>());
  const json two = json::parse(
      Printed("plan " + profile + " --devices 2 --memory 141GB --micro-batches 4 --json"));
  EXPECT_LT(two["step_seconds"], plan["step_seconds"]);
}

// A device that a file describes is its own, whatever its name: its link is that of the file, and
// nothing was measured on it.
TEST(RooflineCommand, AFileMayHaveTheNameOfAKnownDevice) {
  const TempFolder folder;
  const std::string device = folder / "mine.json", profile = folder / "profile.json";
  std::ofstream(device) << R"({"name": "h200", "fp32_flops": 6.7e13, "bf16_flops": 9.895e14,
      "memory_bandwidth": 4.8e12, "link_bandwidth": 1e9, "link_latency": 1e-3})";
  const std::string asked =
      "roofline gpt2 --layers 1 --dim 64 --heads 2 --vocab 64 --device " + device;
  const auto written = [&] {
    std::ifstream file(profile);
    return json::parse(file);
  };
  EXPECT_THAT(Printed(asked + " --profile " + profile), HasSubstr("is an assumption"));
  EXPECT_EQ(written()["link_bandwidth"], 1e9);
  EXPECT_EQ(written()["link_latency"], 1e-3);
  Printed("roofline gpt2 --layers 1 --dim 64 --heads 2 --vocab 64 --profile " + profile);
  EXPECT_EQ(written()["link_bandwidth"], 3.915e11);
}

TEST(RooflineCommand, SaysWhatIsWrong) {
  EXPECT_THAT(Refused("roofline gpt2 --device gameboy"), HasSubstr("no device 'gameboy'"));
  EXPECT_THAT(Refused("roofline gpt2 --recompute auto"),
              HasSubstr("--recompute is 'auto'; expected none, selective or full"));
  EXPECT_THAT(Refused("roofline gpt2 --heads 3 --attention cudnn"),
              HasSubstr("take --attention sluice"));
  EXPECT_THAT(Refused("roofline gpt5"), HasSubstr("no preset model 'gpt5'"));
  EXPECT_THAT(Refused("roofline mixtral-8x7b"), HasSubstr("can be planned for but not trained"));
  EXPECT_THAT(Refused("roofline gpt2 --device none.json"), HasSubstr("none.json"));
}

}  // namespace
}  // namespace sluice
