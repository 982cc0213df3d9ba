#include "tests/partitioner/measured_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

// A word of a kernel's name, and its kind: the first that fits. Which of cuBLASLt's kernels ran for
// which product was read off their numbers of launches, operands (T: transposed) and epilogues: W's
// result is fp32 ("tss"), and I's product with GELU' says so.
constexpr std::pair<const char*, KernelKind> kNames[] = {
    {"dgelu", KernelKind::kProductInputGradGelu},
    {"nvjet_sm90_tss", KernelKind::kProductWeightGrad},
    {"nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", KernelKind::kProductInputGrad},
    {"nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", KernelKind::kProductInputGrad},
    {"nvjet_sm90_tst", KernelKind::kProductForward},
    {"KeyGradientKernel", KernelKind::kAttentionKeyGrad},
    {"QueryGradientKernel", KernelKind::kAttentionQueryGrad},
    {"attention::ForwardKernel", KernelKind::kAttentionForward},
    {"StatisticsKernel", KernelKind::kAttentionStatistics},
    {"ColumnPartsKernel", KernelKind::kColumnSums},
    {"AddPartsKernel", KernelKind::kPartSums},
    {"NormForward", KernelKind::kNormForward},
    {"NormBackward", KernelKind::kNormBackward},
    {"ActivationForward", KernelKind::kActivationForward},
    {"CrossEntropyTotal", KernelKind::kCrossEntropyTotal},
    {"CrossEntropyKernel", KernelKind::kCrossEntropy},
    {"AddFrequentRows", KernelKind::kEmbeddingRows},
    {"AddSortedRows", KernelKind::kEmbeddingRows},
    {"AddPositionRows", KernelKind::kEmbeddingPositions},
    {"MergeRuns", KernelKind::kEmbeddingSort},
    {"SortTiles", KernelKind::kEmbeddingSort},
    {"EmbeddingForward", KernelKind::kEmbeddingForward},
    {"OptimizerKernel", KernelKind::kOptimizer},
    {"BlockSquares", KernelKind::kBlockSquares},
    {"AddInGroups", KernelKind::kSquareSums},
    {"AddKernel", KernelKind::kAddition},
    {"ToBFloat16", KernelKind::kRounding},
    {"fill", KernelKind::kFill},
    {"copy", KernelKind::kCopy},
};

void Add(const nlohmann::json& row, MeasuredKind* kind) {
  kind->launches += row["launches"].get<int>();
  kind->seconds += row["microseconds"].get<double>() * 1e-6;
}

nlohmann::json ReadParts(const char* file_name = "gpu_check_h200.json") {
  std::ifstream file(SourceFolder() / "bench/results" / file_name);
  return nlohmann::json::parse(file)["parts"];
}

std::vector<std::string> LinesOf(const char* bench) {
  return ReadParts()["bench-kernels"]["rows"][bench]["lines"];
}

}  // namespace

MeasuredStep ReadMeasuredStep() {
  const nlohmann::json parts = ReadParts();
  MeasuredStep step;
  for (const auto& [name, row] : parts["profile"]["rows"].items()) {
    if (name == "step") {
      step.launches = row["launches"];
      step.seconds = row["milliseconds"].get<double>() * 1e-3;
      continue;
    }
    if (absl::StrContains(name, "splitKreduce")) {
      Add(row, &step.split_sums);
      continue;
    }
    bool found = false;
    for (const auto& [word, kind] : kNames) {
      if (!absl::StrContains(name, word)) continue;
      Add(row, &step.kinds[kind]);
      found = true;
      break;
    }
    EXPECT_TRUE(found) << name;
  }
  const nlohmann::json& runs = parts["train-gpt2"]["rows"];
  step.mfu = runs["sluice"]["mfu"];
  step.cudnn_seconds = runs["sluice, cuDNN's attention"]["step_seconds"];
  return step;
}

double MedianSecondsOfGpt2Xl() {
  std::ifstream file(SourceFolder() / "bench/results/gpt2_xl_h200.json");
  const nlohmann::json lines = nlohmann::json::parse(file)["lines"];
  std::vector<double> seconds;
  for (const nlohmann::json& line : lines) {
    if (line.contains("step_seconds")) seconds.push_back(line["step_seconds"]);
  }
  EXPECT_FALSE(seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  return seconds.at(seconds.size() / 2);
}

MeasuredGraphs ReadMeasuredGraphs() {
  const nlohmann::json runs = ReadParts("gpu_train_h200.json")["train-gpt2"]["rows"];
  return {.one_by_one_seconds = runs["sluice, tuned"]["step_seconds"],
          .graphs_seconds = runs["sluice, tuned, graphs"]["step_seconds"]};
}

std::vector<MeasuredProduct> ReadMeasuredProducts() {
  // "input gradient, gelu    [16384, 3072] x [768]            167.7  461 TFLOP/s   46.6 %"
  const std::regex row(
      R"(^(forward|input gradient|weight gradient)(, gelu)? +\[(\d+), (\d+)\] x \[(\d+)\] +([\d.]+) .*)");
  std::vector<MeasuredProduct> products;
  for (const std::string& line : LinesOf("cuda_kernels_bench")) {
    std::smatch word;
    if (!std::regex_match(line, word, row)) continue;
    products.push_back({.pass = word[1],
                        .gelu = word[2].matched,
                        .rows = std::stoll(word[3]),
                        .in = std::stoll(word[4]),
                        .out = std::stoll(word[5]),
                        .seconds = std::stod(word[6]) * 1e-6});
  }
  return products;
}

std::vector<MeasuredAttention> ReadMeasuredAttention() {
  // "GPT-2 124M                      forward        117.2       219.9    22.2 %", where a row
  // without a shape is of the one before.
  const std::regex row(R"(^(.{30}) +(forward|backward) +([\d.]+) .*)");
  std::vector<MeasuredAttention> rows;
  std::string shape;
  bool cudnn = false;
  for (const std::string& line : LinesOf("cuda_attention_bench")) {
    std::smatch word;
    if (!std::regex_match(line, word, row)) continue;
    const std::string named(absl::StripAsciiWhitespace(word[1].str()));
    if (!named.empty()) cudnn = named == "cuDNN";
    if (!named.empty() && !cudnn) shape = named;
    rows.push_back({.shape = shape,
                    .cudnn = cudnn,
                    .forward = word[2] == "forward",
                    .seconds = std::stod(word[3]) * 1e-6});
  }
  return rows;
}

}  // namespace sluice
