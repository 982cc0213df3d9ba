// Runs by a plan: what it brings along, and that they take the memory that it says.

#include <algorithm>
#include <fstream>

#include "gmock/gmock.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(TrainCommandTest, APlanBringsItsModel) {
  const std::string plan = folder_ / "plan.json";
  const ProcessResult planned = RunSluice(Words(
      absl::StrCat("plan char-gpt --layers 2 --dim 16 --heads 2 --vocab 256 --seq 16 --devices 2 ",
                   "--device cpu --micro-batch-size 2 --micro-batches 4 --dtype fp32 ",
                   "--format json -o ", plan)));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  const ProcessResult result =
      RunSluice(Words(absl::StrCat("train --data ", folder_ / "text", " --plan ", plan,
                                   " --steps 1 --eval-micro-batches 1 --no-pin --json")));
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
}

TEST_F(TrainCommandTest, APlanBringsItsReplicas) {
  const std::string file = folder_ / "plan.json";
  const ProcessResult planned = RunSluice(Words(
      absl::StrCat("plan char-gpt --layers 2 --dim 16 --heads 2 --vocab 256 --seq 16 --devices 4 ",
                   "--data-parallel 2 --zero 1 --device h200 --micro-batch-size 2 ",
                   "--micro-batches 4 --dtype bf16 --format json -o ", file)));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  const std::string train =
      absl::StrCat("train --data ", folder_ / "text",
                   " --steps 1 --eval-micro-batches 1 --no-pin --plan ", file);
  const ProcessResult result = RunSluice(Words(train));
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_THAT(result.out, HasSubstr("replicas  2:"));
  EXPECT_THAT(result.out, HasSubstr("ZeRO 1"));
}

constexpr char kTwoRanks[] =
    "plan char-gpt --layers 2 --dim 16 --heads 2 --vocab 256 --seq 16 --devices 2 --device h200 "
    "--micro-batch-size 1 --micro-batches 4 --dtype fp32 --schedule zb-h1 --format json -o ";

TEST_F(TrainCommandTest, AFlagMaySayWhatThePlanSaysAndNothingElse) {
  const std::string file = folder_ / "plan.json";
  ASSERT_EQ(RunSluice(Words(kTwoRanks + file)).exit_code, kExitDone);
  const std::string train =
      absl::StrCat("train --data ", folder_ / "text", " --layers 2 --dim 16 --heads 2 --seq 16 ",
                   "--steps 1 --eval-micro-batches 1 --no-pin --plan ", file, " ");
  struct Flag {
    const char *name, *same, *other;
  };
  for (const Flag& flag : {Flag{"--dtype", "fp32", "bf16"},
                           {"--stages", "2", "3"},
                           {"--stage-replicas", nullptr, "2,1"},
                           {"--micro-batches", "4", "2"},
                           {"--micro-batch-size", "1", "2"},
                           {"--recompute", "none", "full"},
                           {"--chunks", "1", "2"},
                           {"--schedule", "zb-h1", "1f1b"},
                           {"--data-parallel", "1", "2"},
                           {"--zero", "0", "2"}}) {
    const ProcessResult other = RunSluice(Words(absl::StrCat(train, flag.name, " ", flag.other)));
    EXPECT_EQ(other.exit_code, kExitBadInput) << flag.name;
    EXPECT_THAT(other.err, HasSubstr(absl::StrCat("--plan and ", flag.name, " both say ")));
    EXPECT_THAT(other.err, HasSubstr(absl::StrCat(" and ", flag.other, " was given")));
    if (flag.same == nullptr) continue;
    const ProcessResult same = RunSluice(Words(absl::StrCat(train, flag.name, " ", flag.same)));
    EXPECT_EQ(same.exit_code, kExitDone) << flag.name << same.err;
  }
  // Of one file, too; a typed plan goes before what a file says.
  WriteBytes(folder_ / "run.toml", absl::StrCat("plan = '", file, "'\nmicro-batches = 2\n"));
  const std::string config = absl::StrCat(
      "train --data ", folder_ / "text", " --layers 2 --dim 16 --heads 2 --seq 16 --steps 1 ",
      "--eval-micro-batches 1 --no-pin --config ", folder_ / "run.toml");
  EXPECT_THAT(RunSluice(Words(config)).err, HasSubstr("--plan and --micro-batches both say "));
  EXPECT_EQ(RunSluice(Words(absl::StrCat(config, " --plan ", file))).exit_code, kExitDone);
}

// A plan that somebody has changed says what is wrong with it, to each of those who read it.
TEST_F(TrainCommandTest, APlanThatWasChangedIsRefused) {
  const std::string file = folder_ / "plan.json";
  ASSERT_EQ(RunSluice(Words(kTwoRanks + file)).exit_code, kExitDone);
  const Json plan = Json::parse(std::ifstream(file));
  struct Change {
    Json::json_pointer field;
    Json value;
    const char* says;
    bool trains = false;  // what only a timetable's costs are
  };
  const std::vector<Change> changes = {
      {Json::json_pointer("/stages/0/rank"), 7, "'rank' of stages[0] is 7; expected 0"},
      {Json::json_pointer("/stages/1/rank"), 0, "'rank' of stages[1] is 0; expected 1"},
      {Json::json_pointer("/partition"), "0,1-3", "field 'partition' is '0,1-3'; expected '0-"},
      {Json::json_pointer("/costs/F"), {1, 2, 3}, "costs", true},
      {Json::json_pointer("/costs/F"), {1, -2}, "costs", true}};
  for (const Change& change : changes) {
    Json changed = plan;
    changed[change.field] = change.value;
    WriteBytes(file, changed.dump());
    for (const std::string& command :
         {absl::StrCat("train --steps 1 --no-pin --data ", folder_ / "text", " --plan ", file),
          absl::StrCat("schedule check ", file), absl::StrCat("schedule show ", file)}) {
      if (change.trains && absl::StartsWith(command, "train")) continue;
      const ProcessResult read = RunSluice(Words(command));
      EXPECT_EQ(read.exit_code, kExitBadInput) << command << change.field;
      EXPECT_THAT(read.err, HasSubstr(change.says)) << command;
      EXPECT_THAT(read.err, HasSubstr(file)) << command;
    }
  }
  WriteBytes(file, plan.dump());
  EXPECT_THAT(RunSluice(Words(absl::StrCat("train --seq 8 --steps 1 --data ", folder_ / "text",
                                           " --plan ", file)))
                  .err,
              HasSubstr("--plan and --seq both say how many tokens a sample has"));
}

TEST_F(TrainCommandTest, APlanOfAGraphWithBranchesIsShownAndNotTrained) {
  constexpr char kBranches[] =
      "node1 -- a -- forward_compute_time=1, backward_compute_time=2, activation_size=10, "
      "parameter_size=10\n"
      "node2 -- b -- forward_compute_time=1, backward_compute_time=2, activation_size=10, "
      "parameter_size=10\n"
      "node3 -- c -- forward_compute_time=1, backward_compute_time=2, activation_size=10, "
      "parameter_size=10\n"
      "\tnode1 -- node3\n\tnode2 -- node3\n";
  WriteBytes(folder_ / "graph.txt", kBranches);
  const std::string file = folder_ / "plan.json";
  const ProcessResult planned = RunSluice(Words(absl::StrCat(
      "plan ", folder_ / "graph.txt", " --devices 2 --micro-batches 4 --format json -o ", file)));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  const ProcessResult shown = RunSluice(Words(absl::StrCat("schedule show ", file)));
  EXPECT_EQ(shown.exit_code, kExitDone) << shown.err;
  const ProcessResult trained =
      RunSluice(Words(absl::StrCat("train --steps 1 --data ", folder_ / "text", " --plan ", file)));
  EXPECT_EQ(trained.exit_code, kExitBadInput);
  EXPECT_THAT(trained.err,
              HasSubstr(absl::StrCat(file,
                                     ": this plan is for a graph with branches, which cannot "
                                     "be trained; expected one for a model")));
}

// A profiled chain for PipeDream's plan: two ranks share its slow half, and one has the half with
// many parameters.
constexpr char kChain[] =
    "node1 -- embedding -- forward_compute_time=1, backward_compute_time=1, "
    "activation_size=1000, parameter_size=1000\n"
    "node2 -- block 0 -- forward_compute_time=4, backward_compute_time=8, "
    "activation_size=1000, parameter_size=1000\n"
    "node3 -- block 1 -- forward_compute_time=4, backward_compute_time=8, "
    "activation_size=1000, parameter_size=1000\n"
    "node4 -- head -- forward_compute_time=4, backward_compute_time=8, "
    "activation_size=10, parameter_size=9e6\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n";

// The plan of kChain on three devices.
Json PlanOfChain(const TempFolder& folder, const std::string& flags) {
  WriteBytes(folder / "graph.txt", kChain);
  const std::string file = folder / "plan.json";
  const ProcessResult planned =
      RunSluice(Words(absl::StrCat("plan ", folder / "graph.txt", " --devices 3 ",
                                   "--data-parallel auto ", flags, " --format json -o ", file)));
  EXPECT_EQ(planned.exit_code, kExitDone) << planned.err;
  return Json::parse(std::ifstream(file));
}

// The output of a run by plan.json, whose weights must be those of one stage that sums gradients in
// one group per micro-batch.
std::string TrainByPlanAndOnOneStage(const TempFolder& folder, const std::string& flags,
                                     int micro_batches) {
  const std::string train =
      absl::StrCat("train --data ", folder / "text", " --layers 2 --dim 16 --heads 2 --seq 16",
                   " --steps 2 --eval-micro-batches 1 --no-pin ");
  const ProcessResult result =
      RunSluice(Words(absl::StrCat(train, flags, " --plan ", folder / "plan.json")));
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  const ProcessResult one = RunSluice(Words(absl::StrCat(
      train, " --stages 1 --micro-batches ", micro_batches, " --sum-groups ", micro_batches)));
  const auto weights = [](const std::string& out) { return out.substr(out.find("weights ")); };
  EXPECT_EQ(weights(result.out), weights(one.out));
  EXPECT_THAT(result.out,
              HasSubstr(absl::StrCat("replicas  2, 1 of the stages, gradients summed in ",
                                     micro_batches, " groups")));
  return result.out;
}

TEST_F(TrainCommandTest, APlanForTheBottleneckBringsReplicasOfItsStages) {
  PlanOfChain(folder_, "--objective bottleneck --bandwidth 1GB/s");
  EXPECT_THAT(TrainByPlanAndOnOneStage(folder_, "--micro-batches 4", 4),
              HasSubstr("layers    0-2,3"));
}

TEST_F(TrainCommandTest, APlanForTheStepBringsReplicasAndTheirSchedule) {
  const Json plan = PlanOfChain(folder_, "--micro-batches 12 --bandwidth 100MB/s");
  std::vector<int> replicas;
  for (const Json& stage : plan["stages"]) replicas.push_back(stage["replicas"]);
  EXPECT_EQ(replicas, (std::vector<int>{2, 1}));
  EXPECT_THAT(TrainByPlanAndOnOneStage(folder_, "", 12),
              HasSubstr(plan["schedule"].get<std::string>()));
}

TEST_F(TrainCommandTest, MirrorsTakeTheMemoryThatTheirPlanSays) {
  const auto peaks = [&](const std::string& how) {
    const std::string file = folder_ / "plan.json";
    const ProcessResult planned = RunSluice(
        Words(absl::StrCat("plan char-gpt --layers 4 --dim 16 --heads 2 --vocab 256 --seq 16 "
                           "--devices 3 --schedule 1f1b --partition 0-1,2-3,4-5 --device cpu "
                           "--dtype bf16 --micro-batch-size 2 --micro-batches 4 --format json -o ",
                           file, how)));
    EXPECT_EQ(planned.exit_code, kExitDone) << planned.err;
    std::vector<int64_t> bytes;
    const Json plan = Json::parse(std::ifstream(file));
    for (const Json& stage : plan["stages"]) bytes.push_back(stage["peak_bytes"]);
    return bytes;
  };
  const std::vector<int64_t> plain = peaks(""), mirrored = peaks(" --mirror");
  const ProcessResult trained = RunSluice(
      Words(absl::StrCat("train --data ", folder_ / "text", " --plan ", folder_ / "plan.json",
                         " --steps 1 --eval-micro-batches 1 --no-pin --json")));
  ASSERT_EQ(trained.exit_code, kExitDone) << trained.err;
  const Json step = Json::parse(trained.out.substr(0, trained.out.find('\n')));
  EXPECT_EQ(step["arena_bytes"].get<std::vector<int64_t>>(), mirrored);
  const auto mirrors = step["mirror_bytes"].get<std::vector<int64_t>>();
  ASSERT_EQ(mirrors.size(), plain.size());
  for (size_t rank = 0; rank < plain.size(); ++rank)
    EXPECT_EQ(mirrored[rank] - plain[rank], mirrors[rank]) << rank;
}

// A plan brings its audits, and says to the byte what they take, whoever asks for them.
TEST_F(TrainCommandTest, AuditsTakeTheMemoryThatTheirPlanSays) {
  for (const char* how : {"--schedule 1f1b --partition 0-1,2-3,4-5 --recompute full",
                          "--schedule interleaved --chunks 2 --partition 0,1,2,3,4,5 --mirror"}) {
    const std::string file = folder_ / "plan.json";
    const auto plan = [&](const std::string& more) {
      const ProcessResult planned = RunSluice(Words(absl::StrCat(
          "plan char-gpt --layers 4 --dim 16 --heads 2 --vocab 256 --seq 16 --devices 3 "
          "--device cpu --micro-batch-size 2 --micro-batches 6 --format json -o ",
          file, " ", how, more)));
      EXPECT_EQ(planned.exit_code, kExitDone) << planned.err;
      return Json::parse(std::ifstream(file));
    };
    const auto bytes = [](const Json& of_plan, const char* which) {
      std::vector<int64_t> ranks;
      for (const Json& stage : of_plan["stages"]) {
        const auto rank = stage["rank"].get<size_t>();
        ranks.resize(std::max(ranks.size(), rank + 1));
        ranks[rank] = stage[which];
      }
      return ranks;
    };
    const auto arenas = [&](const std::string& more) {
      const ProcessResult trained =
          RunSluice(Words(absl::StrCat("train --data ", folder_ / "text", " --plan ", file,
                                       " --steps 8 --eval-micro-batches 1 --no-pin --json", more)));
      EXPECT_EQ(trained.exit_code, kExitDone) << trained.err;
      const Json step = Json::parse(trained.out.substr(0, trained.out.find('\n')));
      const std::string last =
          trained.out.substr(trained.out.rfind('\n', trained.out.size() - 2) + 1);
      const Json summary = Json::parse(last);
      return std::pair(step["arena_bytes"].get<std::vector<int64_t>>(),
                       summary.contains("audits") ? summary["audits"]["audits"].get<int>() : 0);
    };
    const Json plain = plan("");
    EXPECT_FALSE(plain.contains("audit"));
    const auto [flagged, audits] = arenas(" --audit 2");
    EXPECT_EQ(audits, 4);
    const Json audited = plan(" --audit 4");
    EXPECT_EQ(audited["audit"], 4);
    EXPECT_GT(audited["audit_seconds"], 0);
    const std::vector<int64_t> peaks = bytes(audited, "peak_bytes");
    EXPECT_EQ(flagged, peaks) << how;
    EXPECT_EQ(arenas(""), std::pair(peaks, 2)) << how;
    EXPECT_EQ(arenas(" --audit 8"), std::pair(peaks, 1)) << "a flag goes before the plan's";
    std::vector<int64_t> difference = bytes(plain, "peak_bytes");
    for (size_t rank = 0; rank < difference.size(); ++rank)
      difference[rank] = peaks[rank] - difference[rank];
    EXPECT_EQ(bytes(audited, "audit_bytes"), difference);
    EXPECT_GT(*std::min_element(difference.begin(), difference.end()), 0);
  }
}

TEST_F(TrainCommandTest, AMirrorIsPlannedOnlyWhereItsBytesAreKnown) {
  const ProcessResult shared =
      RunSluice(Words("plan char-gpt --devices 4 --tensor-parallel 2 --device h200 --mirror"));
  EXPECT_EQ(shared.exit_code, kExitBadInput);
  EXPECT_THAT(shared.err, HasSubstr("--mirror: the bytes of a mirror are known of models that"));
  const ProcessResult alone = RunSluice(Words("plan char-gpt --devices 1 --device h200 --mirror"));
  EXPECT_EQ(alone.exit_code, kExitBadInput);
  EXPECT_THAT(alone.err, HasSubstr("--mirror: there is one rank"));
}

TEST_F(TrainCommandTest, ReplicasTakeTheMemoryThatTheirPlanSays) {
  for (const char* zero : {"0", "1", "2"}) {
    const std::string file = folder_ / "plan.json";
    const ProcessResult planned = RunSluice(Words(absl::StrCat(
        "plan char-gpt --layers 2 --dim 16 --heads 2 --vocab 256 --seq 16 --devices 4 ",
        "--data-parallel 2 --device cpu --micro-batch-size 2 --micro-batches 4 ",
        "--format json -o ", file, " --zero ", zero)));
    ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
    int64_t largest = 0;
    const Json plan = Json::parse(std::ifstream(file));
    for (const Json& stage : plan["stages"]) {
      largest = std::max(largest, stage["peak_bytes"].get<int64_t>());
    }
    const ProcessResult result = RunSluice(
        Words(absl::StrCat("train --data ", folder_ / "text",
                           " --steps 1 --eval-micro-batches 1 --no-pin --json --plan ", file)));
    ASSERT_EQ(result.exit_code, kExitDone) << result.err;
    const Json step = Json::parse(result.out.substr(0, result.out.find('\n')));
    // Every rank allocates the bytes that the plan predicts for it.
    const auto peaks = step["peak_bytes"].get<std::vector<int64_t>>();
    EXPECT_EQ(peaks.size(), 4u);
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), largest) << "ZeRO " << zero;
    EXPECT_EQ(step["arena_bytes"], step["peak_bytes"]);
  }
}

}  // namespace
}  // namespace sluice
