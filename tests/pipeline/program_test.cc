// The instructions that are compiled from timetables of a few actions: when a test of whole runs
// fails, these show where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/compile/program/check_progress.h"
#include "pipeline/compile/program/compile_rank.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "tests/pipeline/program_listing.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Layers of a model without arithmetic: 8 rows of fp32 between them; the last layer has the loss.
std::vector<LayerDecl> Layers(int count) {
  std::vector<LayerDecl> layers(static_cast<size_t>(count));
  for (LayerDecl& layer : layers) {
    layer.input_shape = layer.output_shape = {8};
    ParameterDecl& weight = layer.parameters.emplace_back();
    weight.name = "w";
    weight.shape = {3};
    layer.tensors = {{"kept", DType::kFloat32, {4}, Lifetime::kForwardToWeightGrad, false},
                     {"cheap", DType::kFloat32, {4}, Lifetime::kForwardToWeightGrad, true},
                     {"scratch", DType::kFloat32, {2}, Lifetime::kForwardScratch, false}};
  }
  layers.front().has_input_grad = false;
  layers.back().output_shape.clear();
  return layers;
}

// A model with `layers` layers, one per stage of the timetable, and the settings of its
// compilation.
struct Compiler {
  Compiler(int layers, const Timetable& compute)
      : decls(Layers(layers)),
        table(*LowerTimetable(compute)),
        deal(table.placement),
        partition(*EvenPartition(layers, table.placement.model_stages())) {
    request.layers = &decls;
    request.timetable = &table;
    request.deal = &deal;
    request.partition = &partition;
    request.recompute.assign(partition.size(), Recompute::kNone);
    request.batch_rows = 8;
  }
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  RankProgram Compile(int rank, const MessageWindow& window = {}) const {
    absl::StatusOr<RankProgram> program = CompileRank(request, rank, window);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }
  std::vector<std::string> Listing(int rank, const MessageWindow& window = {}) const {
    return List(Compile(rank, window));
  }

  const std::vector<LayerDecl> decls;
  const Timetable table;
  const StageDeal deal;
  const Partition partition;
  ProgramRequest request;
};

Timetable Rows(const Placement& placement, int micro_batches,
               const std::vector<std::vector<Action>>& rows) {
  Timetable table;
  table.name = "rows";
  table.placement = placement;
  table.micro_batches = micro_batches;
  table.rows = rows;
  return table;
}

Action At(Op op, int stage, int micro_batch) {
  return {.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = micro_batch};
}

TEST(CompileRank, ThreeActionsOfOneStage) {
  const Compiler one(
      1, Rows(Placement::Looped(1), 1,
              {{At(Op::kForward, 0, 0), At(Op::kInputGrad, 0, 0), At(Op::kWeightGrad, 0, 0)}}));
  EXPECT_THAT(one.Listing(0), ElementsAre("begin 0F0", "load input 0 -> b0", "load targets 0 -> b1",
                                          "F 0 (b0) -> -", "end",  // the loss is no buffer
                                          "begin 0I0", "I 0 (-) -> -", "end",  // no rank needs it
                                          "begin 0W0", "W 0", "end"));
}

TEST(CompileRank, ABackwardGoesLayerByLayer) {
  const Compiler one(
      2, Rows(Placement::Looped(1), 1, {{At(Op::kForward, 0, 0), At(Op::kBackward, 0, 0)}}));
  EXPECT_THAT(one.Listing(0), testing::Contains("begin 0B0"));
  const std::vector<std::string> listing = one.Listing(0);
  const std::vector<std::string> backward(listing.end() - 6, listing.end());
  EXPECT_THAT(backward, ElementsAre("begin 0B0", testing::StartsWith("I 1 (-) -> b"), "W 1",
                                    testing::StartsWith("I 0 (b"), "W 0", "end"));
}

// Rank 0 receives nothing before its backward, and posts that receive before it computes. The
// gradient leaves rank 1 before the weight gradient is computed, since rank 0 waits for it.
TEST(CompileRank, MessagesArePostedEarlyAndWaitedForLate) {
  const Compiler two(2, *GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 1}));
  EXPECT_THAT(
      two.Listing(0),
      ElementsAre("post receive 1 #0 -> b0", "begin 0F0", "load input 0 -> b1", "F 0 (b1) -> b5",
                  "end", "post send 1 #0 <- b5", "wait receive 1 #0 -> b0", "begin 0B0",
                  "I 0 (b0) -> -", "W 0", "end", "wait send 1 #0 <- b5"));
  EXPECT_THAT(
      two.Listing(1),
      ElementsAre("post receive 0 #0 -> b0", "wait receive 0 #0 -> b0", "begin 1F0",
                  "load targets 0 -> b1", "F 0 (b0) -> -", "end", "begin 1B0", "I 0 (-) -> b5",
                  "post send 0 #0 <- b5", "W 0", "end", "wait send 0 #0 <- b5"));
}

std::vector<std::string> OnlyMessages(const std::vector<std::string>& listing) {
  std::vector<std::string> messages;
  for (const std::string& line : listing) {
    if (line.rfind("post", 0) == 0 || line.rfind("wait", 0) == 0) {
      messages.push_back(line.substr(0, line.find(' ', line.find('#'))));
    }
  }
  return messages;
}

TEST(CompileRank, TheWindowSaysHowManyMessagesAreUnderWay) {
  const Compiler two(2, *GenerateSchedule("gpipe", {.ranks = 2, .micro_batches = 3}));
  EXPECT_THAT(OnlyMessages(two.Listing(1, {.receives = 2, .sends = 1})),
              ElementsAre("post receive 0 #0", "post receive 0 #1", "wait receive 0 #0",
                          "post receive 0 #2", "wait receive 0 #1", "wait receive 0 #2",
                          "post send 0 #0", "wait send 0 #0", "post send 0 #1", "wait send 0 #1",
                          "post send 0 #2", "wait send 0 #2"));
  EXPECT_THAT(OnlyMessages(two.Listing(1, {.receives = 1, .sends = 3})),
              ElementsAre("post receive 0 #0", "wait receive 0 #0", "post receive 0 #1",
                          "wait receive 0 #1", "post receive 0 #2", "wait receive 0 #2",
                          "post send 0 #0", "post send 0 #1", "post send 0 #2", "wait send 0 #0",
                          "wait send 0 #1", "wait send 0 #2"));
}

// Only the calls, for the backward of layer 0.
std::vector<std::string> Backward(Compiler& compiler, Recompute policy) {
  compiler.request.recompute = {policy};
  std::vector<std::string> calls;
  bool backward = false;
  for (const std::string& line : compiler.Listing(0)) {
    backward |= line == "begin 0B0";
    if (backward && line != "begin 0B0" && line != "end")
      calls.push_back(line.substr(0, line.find(" (")));
  }
  return calls;
}

TEST(CompileRank, RecomputationComesRightBeforeTheLayersBackward) {
  Compiler one(2,
               Rows(Placement::Looped(1), 1, {{At(Op::kForward, 0, 0), At(Op::kBackward, 0, 0)}}));
  EXPECT_THAT(Backward(one, Recompute::kNone), ElementsAre("I 1", "W 1", "I 0", "W 0"));
  EXPECT_THAT(Backward(one, Recompute::kSelective),
              ElementsAre("restore 1", "I 1", "W 1", "restore 0", "I 0", "W 0"));
  EXPECT_THAT(Backward(one, Recompute::kFull),
              ElementsAre("F 1", "I 1", "W 1", "F 0", "I 0", "W 0"));
}

std::vector<std::string> OnlySums(const std::vector<std::string>& listing) {
  std::vector<std::string> sums;
  for (const std::string& line : listing) {
    if (line[0] == 'W' || line.rfind("add", 0) == 0) sums.push_back(line);
  }
  return sums;
}

// The first micro-batch of a sum overwrites, the others add; groups after the first have a separate
// accumulator, which is added once a group is complete.
TEST(CompileRank, SumsInGroups) {
  Compiler one(1, *GenerateSchedule("gpipe", {.ranks = 1, .micro_batches = 4}));
  EXPECT_THAT(OnlySums(one.Listing(0)), ElementsAre("W 0", "W 0 +", "W 0 +", "W 0 +"));
  one.request.sum_groups = 2;
  const RankProgram program = one.Compile(0);
  EXPECT_THAT(OnlySums(List(program)), ElementsAre("W 0", "W 0 +", "W 0", "W 0 +", "add group 0"));
  std::vector<bool> second;
  for (const Instruction& i : program.instructions) {
    if (i.step == Step::kBackwardWeight)
      second.push_back(program.calls[static_cast<size_t>(i.index)].second_gradient);
  }
  EXPECT_THAT(second, ElementsAre(false, false, true, true));
}

// A sum begins with the micro-batch that is first in the timetable's order of sums.
TEST(CompileRank, SumsInTheTimetablesOrder) {
  Timetable table = *GenerateSchedule("gpipe", {.ranks = 1, .micro_batches = 3});
  for (Action& action : table.rows[0]) {
    if (action.op == Op::kBackward) action.micro_batch = 2 - action.micro_batch;
  }
  Compiler one(1, table);
  EXPECT_THAT(OnlySums(one.Listing(0)), ElementsAre("W 0", "W 0 +", "W 0 +"));
  one.request.sum_groups = 3;
  EXPECT_THAT(std::string(CompileRank(one.request, 0, {}).status().message()),
              HasSubstr("in descending order"));
}

// A buffer lives from the instruction that writes it to the last one that uses it.
TEST(CompileRank, BuffersLiveAsLongAsTheyAreUsed) {
  const Compiler one(
      1, Rows(Placement::Looped(1), 1,
              {{At(Op::kForward, 0, 0), At(Op::kInputGrad, 0, 0), At(Op::kWeightGrad, 0, 0)}}));
  const RankProgram program = one.Compile(0);
  // First input and targets, then the layer's three tensors: F is instruction 3 and W is 9.
  ASSERT_EQ(program.buffers.size(), 5u);
  const auto life = [&](size_t b) {
    return std::pair(program.buffers[b].first, program.buffers[b].last);
  };
  EXPECT_EQ(life(0), std::pair(1, 3));
  EXPECT_EQ(life(1), std::pair(2, 3));
  EXPECT_EQ(life(2), std::pair(3, 9));
  EXPECT_EQ(life(3), std::pair(3, 9));
  EXPECT_EQ(life(4), std::pair(3, 3)) << "scratch";
  EXPECT_EQ(program.buffers[2].bytes, 16);
}

TEST(CompileRank, SaysWhatDoesNotFit) {
  Compiler two(2, *GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 4}));
  two.request.sum_groups = 3;
  EXPECT_THAT(std::string(CompileRank(two.request, 0, {}).status().message()),
              HasSubstr("3 groups of 4 micro-batches; give --sum-groups a divisor"));
  two.request.sum_groups = 1;
  const Partition short_one = {{0, 0}};
  two.request.partition = &short_one;
  EXPECT_THAT(std::string(CompileRank(two.request, 0, {}).status().message()),
              HasSubstr("the schedule has 2 stages, the partition 1"));
}

TEST(CheckProgress, NamesRanksThatWouldWaitForEachOther) {
  const Compiler two(2, *GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 1}));
  std::vector<RankProgram> programs = {two.Compile(0), two.Compile(1)};
  EXPECT_TRUE(CheckProgress(programs).status.ok()) << CheckProgress(programs).status;
  // Rank 1 waits until its gradient is received before it has computed it.
  std::vector<Instruction>& last = programs[0].instructions;
  std::erase_if(last, [](const Instruction& i) { return i.step == Step::kPostReceive; });
  const ProgramProgress stuck = CheckProgress(programs);
  EXPECT_FALSE(stuck.status.ok());
}

}  // namespace
}  // namespace sluice
