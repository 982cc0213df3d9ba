// Makespans, bubbles and peaks that are known from elsewhere: closed forms of the papers, and the
// simulators of PyTorch and of the zero-bubble code base (github.com/sail-sg/zero-bubble) run on
// the same costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedules/catalogue.h"
#include "schedules/simulate.h"

namespace sluice {
namespace {

struct Known {
  const char* schedule;
  ScheduleRequest request;
  double f, i, w, send;
  double makespan;
};

Simulation RunKnown(const Known& known) {
  const auto table = GenerateSchedule(known.schedule, known.request);
  EXPECT_TRUE(table.ok()) << table.status();
  const auto costs =
      StageCosts::Uniform(table->placement.stages(), known.f, known.i, known.w, known.send);
  const auto run = Simulate(*table, costs);
  EXPECT_TRUE(run.ok()) << run.status();
  return *run;
}

class Makespan : public testing::TestWithParam<Known> {};

TEST_P(Makespan, IsThePublishedOne) {
  EXPECT_DOUBLE_EQ(RunKnown(GetParam()).makespan, GetParam().makespan);
}

INSTANTIATE_TEST_SUITE_P(
    Published, Makespan,
    testing::Values(
        // (m + p - 1)(F + B): GPipe and 1F1B without latency.
        Known{"gpipe", {4, 8, 1}, 1, 1, 1, 0, 33}, Known{"1f1b", {4, 8, 1}, 1, 1, 1, 0, 33},
        // (m + p - 1)(F + B) + 2 (p - 1) send: GPipe pays each hop once down and once up.
        Known{"gpipe", {8, 24, 1}, 18522, 18086, 9337, 601, 1432709},
        // 1F1B pays hops in its steady state too (zero-bubble's simulator; costs of its 1.5B model
        // on 8 devices).
        Known{"1f1b", {8, 24, 1}, 18522, 18086, 9337, 601, 1456749},
        // (v m + p - 1)(F + B) per chunk: Megatron-LM, section 2.2.2.
        Known{"interleaved", {4, 8, 2}, 1, 1, 1, 0, 57},
        Known{"interleaved", {8, 24, 3}, 6174, 6000, 3141, 601, 1237531},
        // Larger groups hide latency (PyTorch's ScheduleInterleaved1F1B and Megatron-LM's group
        // size).
        Known{"interleaved", {4, 16, 2, 4}, 10, 10, 10, 2, 1078},
        Known{"interleaved", {4, 16, 2, 8}, 10, 10, 10, 2, 1062},
        // 3m + p - 1 for F = I = W = 1: zero-bubble paper, table 2; then its simulator on measured
        // costs.
        Known{"zb-h1", {4, 8, 1}, 1, 1, 1, 0, 27},
        Known{"zb-h1", {8, 24, 1}, 18522, 18086, 9337, 601, 1310405}),
    [](const auto& known) {
      std::string name = known.param.schedule;
      std::replace(name.begin(), name.end(), '-', '_');
      return name + "_" + std::to_string(known.index);
    });

TEST(PublishedBubble, OfGPipeAndOneFOneB) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const Simulation run = RunKnown({schedule, {4, 8, 1}, 1, 1, 1, 0, 33});
    EXPECT_DOUBLE_EQ(run.bubble, 3.0 / 11) << schedule;  // (p - 1) / (m + p - 1)
  }
}

TEST(PublishedPeaks, AreActivationsHeldPerRank) {
  EXPECT_EQ(RunKnown({"gpipe", {4, 8, 1}, 1, 1, 1, 0, 33}).peak_activations,
            (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(RunKnown({"1f1b", {4, 8, 1}, 1, 1, 1, 0, 33}).peak_activations,
            (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(RunKnown({"interleaved", {4, 8, 2}, 1, 1, 1, 0, 57}).peak_activations,
            (std::vector<int>{11, 9, 7, 5}));
  EXPECT_EQ(RunKnown({"zb-h1", {4, 8, 1}, 1, 1, 1, 0, 27}).peak_activations,
            (std::vector<int>{4, 4, 4, 4}));
}

}  // namespace
}  // namespace sluice
