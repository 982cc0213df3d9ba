// The bitwise promise can fail: one micro-batch dropped, doubled or taken out of order anywhere in
// a compiled program changes the outcome.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 2;
constexpr int kMicroBatch = 2;  // the one that is tampered with: neither the first nor the last

Outcome TrainOrDie(const RunPlan& plan) {
  absl::StatusOr<Outcome> outcome = Train(plan, SmallOptions(kSteps));
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *outcome : Outcome{};
}

bool IsWeightGradOf(const Instruction& instruction, int micro_batch) {
  return instruction.step == Step::kBackwardWeight && instruction.micro_batch == micro_batch;
}

// A model, and the rank that is tampered with.
class Mutation : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  static RunPlan Sound() {
    return MakePlan({.model = std::get<0>(GetParam()), .schedule = "1f1b", .ranks = 3});
  }
  static int rank() { return std::get<1>(GetParam()); }

  RunPlan plan_ = Sound();
  std::vector<Instruction>& instructions() {
    return plan_.train[static_cast<size_t>(rank())].instructions;
  }
  const Outcome sound_ = TrainOrDie(Sound());
};

TEST_P(Mutation, NoneIsTheSameAgain) { EXPECT_EQ(TrainOrDie(plan_), sound_); }

TEST_P(Mutation, DroppedMicroBatchIsSeen) {
  std::erase_if(instructions(),
                [](const Instruction& i) { return IsWeightGradOf(i, kMicroBatch); });
  EXPECT_NE(TrainOrDie(plan_).weights_hash, sound_.weights_hash);
}

TEST_P(Mutation, DoubledMicroBatchIsSeen) {
  std::vector<Instruction> doubled;
  for (const Instruction& instruction : instructions()) {
    doubled.push_back(instruction);
    if (IsWeightGradOf(instruction, kMicroBatch)) doubled.push_back(instruction);
  }
  instructions() = doubled;
  EXPECT_NE(TrainOrDie(plan_).weights_hash, sound_.weights_hash);
}

// Micro-batch 0's data in place of micro-batch 2's: each is still computed once, but one sample set
// twice.
TEST_P(Mutation, WrongDataAreSeen) {
  if (rank() != 0) GTEST_SKIP() << "only the first rank reads data";
  for (Instruction& instruction : instructions()) {
    if (instruction.step == Step::kLoadInput && instruction.micro_batch == kMicroBatch)
      instruction.micro_batch = 0;
  }
  const Outcome outcome = TrainOrDie(plan_);
  EXPECT_NE(outcome.losses, sound_.losses);
  EXPECT_NE(outcome.weights_hash, sound_.weights_hash);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mutation,
                         testing::Combine(testing::Values("gpt", "llama", "qwen3", "gemma2"),
                                          testing::Range(0, 3)));

// Sums of floats depend on their order: were gradients added as they come, this order would show.
TEST(AccumulationOrder, OtherOrderOfAccumulationIsSeen) {
  RunPlan plan = MakePlan({.schedule = "zb-h1", .ranks = 1});
  const Outcome sound = TrainOrDie(plan);
  // Every I, then every W, so that W may be reordered freely.
  RunRequest request = MakeRequest({.schedule = "gpipe", .ranks = 1});
  std::vector<Action>& row = request.timetable.rows.front();
  row.clear();
  for (Op op : {Op::kForward, Op::kInputGrad, Op::kWeightGrad}) {
    for (int mb = 0; mb < request.timetable.micro_batches; ++mb) row.push_back({op, false, 0, mb});
  }
  absl::StatusOr<RunPlan> split = CompileRun(request);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(TrainOrDie(*split), sound);

  std::vector<Instruction>& instructions = split->train.front().instructions;
  std::vector<Instruction> second;
  std::vector<Instruction> third;
  for (const Instruction& instruction : instructions) {
    if (IsWeightGradOf(instruction, 1)) second.push_back(instruction);
    if (IsWeightGradOf(instruction, 2)) third.push_back(instruction);
  }
  size_t a = 0;
  size_t b = 0;
  for (Instruction& instruction : instructions) {
    if (IsWeightGradOf(instruction, 1)) {
      instruction = third[a++];
    } else if (IsWeightGradOf(instruction, 2)) {
      instruction = second[b++];
    }
  }
  EXPECT_NE(TrainOrDie(*split).weights_hash, sound.weights_hash);
}

}  // namespace
}  // namespace sluice
