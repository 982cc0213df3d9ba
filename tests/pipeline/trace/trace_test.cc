#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "pipeline/state/rank_state.h"
#include "pipeline/trace/format_trace.h"
#include "pipeline/trace/trace_recorder.h"
#include "tests/pipeline/small_run.h"
#include "tests/pipeline/trace/trace_facts.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int kSteps = 2;

TrainResult Traced(const RunPlan& plan, TrainOptions options) {
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  options.watching.trace = true;
  absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : TrainResult();
}

class Trace : public testing::TestWithParam<SmallRun> {};

// Everything that the programs say happens is there, and nothing else; memory goes as high as the
// plan says and back to nothing.
TEST_P(Trace, ShowsWhatTheProgramsDo) {
  const RunPlan plan = MakePlan(GetParam());
  const TrainResult result = Traced(plan, SmallOptions(kSteps));
  const TraceFacts facts = ReadTrace(result.trace, plan);
  EXPECT_THAT(facts.defects, IsEmpty());

  std::map<std::string, int> expected;
  int messages = 0;
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    const RankProgram& program = plan.train[static_cast<size_t>(plan.pipeline_rank(rank))];
    for (const Action& action : program.actions) expected[OpName(action.op)] += kSteps;
    for (const int sends : program.sends) messages += kSteps * sends;
    expected["REDUCE_GRAD"] += kSteps * static_cast<int>(program.reductions.size());
    EXPECT_EQ(facts.most_held[static_cast<size_t>(rank)], PlannedPeak(plan, rank)) << rank;
    EXPECT_LE(PlannedPeak(plan, rank), plan.arenas[static_cast<size_t>(rank)].memory.activations);
    EXPECT_EQ(facts.held[static_cast<size_t>(rank)], 0) << rank;
  }
  // One of each between two passes; the exchange of gradients is one more sum.
  for (const char* phase : {"OPTIMIZER_STEP", "gradient norm", "agreement", "REDUCE_GRAD"})
    expected[phase] += kSteps * plan.world_size();
  if (plan.audits()) expected["audit"] = kSteps / plan.request.audit_every * plan.world_size();
  for (const auto& [category, count] : expected)
    EXPECT_EQ(facts.categories.at(category), count) << category;
  EXPECT_EQ(facts.arrows, messages);
  EXPECT_EQ(facts.early_arrows, 0);
  int sent = 0, received = 0, waited = 0;
  for (const auto& [category, count] : facts.categories) {
    if (category == "SEND_F" || category == "SEND_B") sent += count;
    if (category == "RECV_F" || category == "RECV_B") received += count;
    if (category == "WAIT_SEND_F" || category == "WAIT_SEND_B") waited += count;
  }
  EXPECT_THAT((std::vector{sent, received, waited}), ElementsAre(messages, messages, messages));
  EXPECT_EQ(facts.categories.at("evaluation"), plan.world_size());
}

std::vector<SmallRun> Runs() {
  return {{.ranks = 1},
          {.schedule = "zb-h1", .ranks = 3},
          {.schedule = "interleaved", .ranks = 2, .chunks = 2, .recompute = Recompute::kFull},
          {.model = "tied", .schedule = "zbv", .ranks = 2, .chunks = 2},
          {.schedule = "chimera", .ranks = 2, .chunks = 2},
          {.model = "wide", .ranks = 2, .replicas = 2},
          {.model = "wide", .ranks = 2, .replicas = 2, .zero = 2},
          {.ranks = 2, .stage_members = {2, 1}},
          {.ranks = 2, .mirror = true},
          {.model = "wide", .ranks = 2, .audit_every = 2}};
}

INSTANTIATE_TEST_SUITE_P(Runs, Trace, testing::ValuesIn(Runs()),
                         [](const auto& run) { return run.param.Name(); });

TEST(TraceOfRun, NamesReplicasAndMembers) {
  const RunPlan replicas = MakePlan({.ranks = 2, .replicas = 2});
  EXPECT_EQ(ReadTrace(Traced(replicas, SmallOptions(1)).trace, replicas).threads.at(3),
            "rank 2 (replica 1)");
  const RunPlan members = MakePlan({.ranks = 2, .stage_members = {2, 1}});
  const TraceFacts facts = ReadTrace(Traced(members, SmallOptions(1)).trace, members);
  EXPECT_EQ(facts.threads.at(2), "rank 1 (stage 0, member 1)");
  EXPECT_EQ(facts.threads.at(3), "rank 2 (stage 1)");
}

TEST(TraceOfRun, ShowsCheckpointsAndTheThreadThatWritesThem) {
  const RunPlan plan = MakePlan({.ranks = 2});
  TrainOptions options = SmallOptions(3);
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "traced";
  std::filesystem::remove_all(folder);
  options.saving.directory = folder;
  options.saving.every = 2;
  options.watching.eval_every = 1;
  const TraceFacts facts = ReadTrace(Traced(plan, options).trace, plan);
  EXPECT_THAT(facts.defects, IsEmpty());
  EXPECT_EQ(facts.categories.at("checkpoint"), 2 * 2);  // of step 2, and the last
  EXPECT_EQ(facts.categories.at("evaluation"), 2 * 3);
  EXPECT_EQ(facts.threads.at(3), "rank 0 in the background");
  std::filesystem::remove_all(folder);
}

// A schedule without a flush has all its steps in one pass.
TEST(TraceOfRun, ShowsAWindowOfSteps) {
  const RunPlan plan = MakePlan({.schedule = "pipedream", .ranks = 2});
  const TrainResult result = Traced(plan, SmallOptions(plan.window_steps()));
  const TraceFacts facts = ReadTrace(result.trace, plan);
  EXPECT_THAT(facts.defects, IsEmpty());
  int updates = 0;
  for (const RankProgram& program : plan.train) updates += static_cast<int>(program.updates.size());
  EXPECT_EQ(facts.categories.at("OPTIMIZER_STEP"), updates);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(facts.most_held[static_cast<size_t>(rank)], PlannedPeak(plan, rank));
    EXPECT_EQ(facts.held[static_cast<size_t>(rank)], 0);
  }
}

// The first events are kept, and the trace says that there were more.
TEST(TraceOfRun, SaysThatItIsFull) {
  constexpr size_t kMost = 5;
  const RunPlan plan = MakePlan({.ranks = 1});
  const auto state = RankState::Create(plan, 0);
  ASSERT_TRUE(state.ok()) << state.status();
  TraceRecorder recorder(**state, TracedSteps(), kMost);
  EXPECT_NE(recorder.ClockOf(1, 1), nullptr);
  for (int64_t step = 1; step < 20; ++step)
    const auto update = recorder.In(TracePhase::kUpdate, step);
  ASSERT_EQ(recorder.events().size(), kMost + 1);
  EXPECT_EQ(recorder.events()[kMost - 1].step, kMost);
  EXPECT_EQ(recorder.events().back().kind, TraceEvent::Kind::kFull);
  EXPECT_EQ(recorder.ClockOf(20, 1), nullptr);
  EXPECT_THAT(FormatTrace(recorder.events(), plan), testing::HasSubstr("the trace is full"));
}

bool IsOfPlan(const TraceEvent& event) {
  return event.kind == TraceEvent::Kind::kAction && TakesTime(event.action.op);
}

TEST(TraceOfRun, HasTheStepsThatAreAskedFor) {
  const RunPlan plan = MakePlan({.schedule = "1f1b", .ranks = 2});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainOptions options = SmallOptions(5);
  options.watching.trace = true;
  options.watching.trace_steps = {.first = 2, .last = 3};
  const absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<int64_t, int> actions;
  for (const TraceEvent& event : result->trace) actions[event.step] += IsOfPlan(event) ? 1 : 0;
  // F and B of two stages and four micro-batches, of each of the two steps.
  EXPECT_EQ(actions, (std::map<int64_t, int>{{2, 16}, {3, 16}}));
}

// What the trace shows ran in the order of the timetable, and no action before what it depends on.
TEST(TraceOfRun, KeepsTheDependencies) {
  const RunPlan plan = MakePlan({.schedule = "interleaved", .ranks = 2, .chunks = 2});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainOptions options = SmallOptions(1);
  options.watching.trace = true;
  absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  std::map<std::string, TraceEvent> times;
  for (const TraceEvent& event : result->trace) {
    if (IsOfPlan(event)) times[ToString(event.action)] = event;
  }
  const int stages = plan.lowered.placement.stages();
  for (int mb = 0; mb < plan.lowered.micro_batches; ++mb) {
    for (uint16_t stage = 1; stage < stages; ++stage) {
      const auto before = static_cast<uint16_t>(stage - 1);
      EXPECT_LE(times[ToString({Op::kForward, false, before, mb})].end,
                times[ToString({Op::kForward, false, stage, mb})].start);
      // A gradient is sent before the weight gradients of the stage's first layer are computed.
      EXPECT_LE(times[ToString({Op::kBackward, false, stage, mb})].start,
                times[ToString({Op::kBackward, false, before, mb})].start);
    }
  }
}

}  // namespace
}  // namespace sluice
