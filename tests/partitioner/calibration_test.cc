// Reading measured steps, fitting the constants, and how well they predict published tables.
#include "partitioner/calibration/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr char kHeader[] =
    "params_b,gpus,global_batch,micro_batch,hidden,heads,layers,seq_len,tp,dp,pp,iteration_ms\n";
constexpr char kRow[] = "1.3,16,64,2,2048,16,24,1024,2,4,2,500\n";

// A100s as in the data sheet, eight per node, with four 200 Gbit/s cards.
ClusterSpec Hardware() {
  ClusterSpec cluster = UniformCluster(*DataSheetDevice("a100"), 8);
  cluster.between = {0, 25e9};
  cluster.cards_per_node = 4;
  return cluster;
}

std::string Refusal(const std::string& csv) {
  const auto steps = ParseMeasuredSteps(csv, "t.csv");
  EXPECT_FALSE(steps.ok()) << csv;
  return std::string(steps.status().message());
}

TEST(MeasuredSteps, AreRead) {
  const auto steps = ParseMeasuredSteps(absl::StrCat(kHeader, kRow, "\n"), "t.csv");
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 1);
  const MeasuredStep& step = steps->front();
  EXPECT_EQ(step.line, 2);
  EXPECT_EQ(step.model, "1.3");
  EXPECT_EQ(step.parallel.tensor, 2);
  EXPECT_EQ(step.parallel.data, 4);
  EXPECT_EQ(step.pipeline, 2);
  EXPECT_EQ(step.micro_batches(), 8);
  EXPECT_EQ(step.recompute, Recompute::kFull);
  EXPECT_DOUBLE_EQ(step.seconds, 0.5);
}

TEST(MeasuredSteps, OneOfEachMeasurement) {
  const auto steps = ParseMeasuredSteps(
      "params_b,heads,hidden,layers,tp,pp,dp,global_batch,micro_batch,chunks,seq_len,"
      "full_recompute_s,sequence_parallel_selective_s\r\n22,64,6144,48,8,1,1,4,4,1,2048,1.4,1."
      "1\r\n",
      "t.csv");
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 2);
  EXPECT_FALSE((*steps)[0].parallel.sequence);
  EXPECT_EQ((*steps)[0].recompute, Recompute::kFull);
  EXPECT_TRUE((*steps)[1].parallel.sequence);
  EXPECT_EQ((*steps)[1].recompute, Recompute::kSelective);
  EXPECT_DOUBLE_EQ((*steps)[1].seconds, 1.1);
}

TEST(MeasuredSteps, NameLineAndColumn) {
  const std::string header = kHeader;
  EXPECT_THAT(Refusal(""), HasSubstr("t.csv: is empty; expected a line with the names of columns"));
  EXPECT_THAT(Refusal("params_b,colour\n"), HasSubstr("line 1, column colour: not known"));
  EXPECT_THAT(Refusal("params_b,params_b\n"), HasSubstr("column params_b: there twice"));
  EXPECT_THAT(Refusal("params_b\n"), HasSubstr("column layers: missing"));
  EXPECT_THAT(Refusal(header), HasSubstr("no measurements"));
  EXPECT_THAT(Refusal(header + "1,2\n"), HasSubstr("line 2: 2 cells; expected 12"));
  const auto with = [&](const char* from, const char* to) {
    std::string row = kRow;
    row.replace(row.find(from), std::string(from).size(), to);
    return Refusal(header + kRow + row);
  };
  EXPECT_THAT(with(",24,", ",x,"), HasSubstr("line 3, column layers: 'x'"));
  EXPECT_THAT(with(",24,", ",0,"), HasSubstr("column layers"));
  EXPECT_THAT(with(",24,", ",1,"), HasSubstr("column layers: '1'; expected a layer or more"));
  EXPECT_THAT(with(",16,64", ",17,64"), HasSubstr("column gpus: '17'; expected tp dp pp = 16"));
  EXPECT_THAT(with(",64,2,", ",63,2,"), HasSubstr("column global_batch: '63'"));
  EXPECT_THAT(with("2048,16,", "2048,15,"), HasSubstr("column heads: '15'"));
  EXPECT_THAT(with(",500", ",-1"), HasSubstr("column iteration_ms: '-1'; expected a time"));
  EXPECT_THAT(with(",500", ",nan"), HasSubstr("column iteration_ms"));
  // Errors are relative to it: none would be finite.
  EXPECT_THAT(with(",500", ",1e-320"),
              HasSubstr("column iteration_ms: '1e-320'; expected a time from 0.001 to 1e+12"));
  EXPECT_THAT(with(",500", ",1e13"), HasSubstr("'1e13'; expected a time from 0.001 to 1e+12"));
  EXPECT_THAT(with(",2,4,2,", ",99999999999999999999,4,2,"), HasSubstr("column tp"));
}

TEST(MeasuredSteps, SurviveGarbage) {
  std::mt19937 random(7);
  const std::string good = absl::StrCat(kHeader, kRow, kRow);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto steps = ParseMeasuredSteps(text, "t.csv");
    if (!steps.ok()) {
      EXPECT_THAT(std::string(steps.status().message()), HasSubstr("t.csv: line "));
    }
  }
}

// Steps that the model itself "measured", with other constants than the expected ones: the fit
// finds these.
TEST(Calibrate, FindsTheConstantsBehindSteps) {
  ClusterSpec truth = Hardware();
  truth.devices[0].product_efficiency = 0.65;
  truth.devices[0].product_half_size = 200;
  truth.devices[0].memory_efficiency = 0.7;
  truth.devices[0].kernel_overhead = 6e-6;
  truth.inside = {3e-5, 180e9};
  truth.between = {3e-5, 20e9};
  std::string csv = kHeader;
  for (const int hidden : {1024, 2048, 4096, 8192}) {
    for (const char* how : {",2,4,2", ",4,4,1", ",8,1,2", ",1,16,1", ",2,2,4"}) {
      int t = 0, d = 0, p = 0;
      ASSERT_EQ(std::sscanf(how, ",%d,%d,%d", &t, &d, &p), 3);
      for (const int batch : {1, 4}) {
        absl::StrAppend(&csv, hidden, ",", t * d * p, ",64,", batch, ",", hidden, ",16,24,1024",
                        how, ",1\n");
      }
    }
  }
  auto steps = ParseMeasuredSteps(csv, "t.csv");
  ASSERT_TRUE(steps.ok()) << steps.status();
  const auto seconds = PredictSteps(*steps, truth);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  for (size_t i = 0; i < steps->size(); ++i) (*steps)[i].seconds = (*seconds)[i];
  const auto calibration = Calibrate(*steps, Hardware());
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_LT(calibration->error, 0.015);
  EXPECT_EQ(calibration->models, 4);
  EXPECT_LT(calibration->held_out_error.value(), 0.03);
  EXPECT_NEAR(calibration->cluster.devices[0].product_efficiency, 0.65, 0.05);
  EXPECT_NEAR(calibration->cluster.inside.bandwidth, 180e9, 30e9);
}

TEST(Calibrate, OneModelLeavesNothingOut) {
  const auto steps = ParseMeasuredSteps(absl::StrCat(kHeader, kRow), "t.csv");
  const auto calibration = Calibrate(*steps, Hardware());
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_FALSE(calibration->held_out_error.has_value());
  EXPECT_FALSE(Calibrate({}, Hardware()).ok());
  EXPECT_FALSE(Calibrate(*steps, UniformCluster(DeviceSpec{}, 1)).ok());
  ClusterSpec absurd = Hardware();
  absurd.devices[0].bf16_flops = 1e-300;
  EXPECT_THAT(std::string(Calibrate(*steps, absurd).status().message()), HasSubstr("rates"));
  ClusterSpec mixed = Hardware();
  mixed.devices.push_back(*DataSheetDevice("h100"));
  mixed.counts.push_back(8);
  EXPECT_THAT(std::string(Calibrate(*steps, mixed).status().message()), HasSubstr("2 kinds"));
}

std::string ReadTable(const char* name) {
  std::ifstream in(SharedFolder() / "data/tables" / name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Published measurements on A100s: each model predicted by constants fitted to the other three.
TEST(Calibrate, PredictsModelsThatItWasNotFittedTo) {
  const std::string text = ReadTable("vtrain_a100_multinode.csv");
  if (text.empty()) GTEST_SKIP() << "no tables";
  const auto steps = ParseMeasuredSteps(text, "vtrain");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(steps->size(), 55);
  const auto calibration = Calibrate(*steps, Hardware());
  ASSERT_TRUE(calibration.ok()) << calibration.status();
  EXPECT_EQ(calibration->models, 4);
  EXPECT_LT(calibration->held_out_error.value(), 0.10);
  EXPECT_LT(calibration->error, 0.08);
  // The steps of another cluster, with other recomputation and with interleaved stages: nothing was
  // fitted to them.
  const auto others = ParseMeasuredSteps(ReadTable("korthikanti2022_a100.csv"), "korthikanti");
  ASSERT_TRUE(others.ok()) << others.status();
  const auto predicted = PredictSteps(*others, calibration->cluster);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  double error = 0;
  for (size_t i = 0; i < others->size(); ++i) {
    error += std::abs((*predicted)[i] / (*others)[i].seconds - 1);
  }
  EXPECT_LT(error / static_cast<double>(others->size()), 0.08);
}

}  // namespace
}  // namespace sluice
