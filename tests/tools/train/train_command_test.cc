// Whole runs of the program: they end as they should, and what they save is what they were.

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/built_files.h"
#include "tests/shared_folder.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;
using namespace std::string_literals;

constexpr size_t kColumns = 80;

class TrainCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }

  std::vector<std::string> Arguments(const std::string& more) const {
    return Words(absl::StrCat("train --data ", folder_ / "text", " ", WithTinyRun(more)));
  }
  ProcessResult Run(const std::string& more, int file_limit_kib = 0) const {
    return RunSluice(Arguments(more), file_limit_kib);
  }
  // A run that ends well; its summary.
  Json Summary(const std::string& more) const {
    const ProcessResult result = Run(absl::StrCat(more, " --json"));
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    EXPECT_EQ(result.err, "");
    return LastLine(result.out);
  }

  TempFolder folder_;
};

TEST_F(TrainCommandTest, InterruptSavesAndTheRestGoesOnBitForBit) {
  SluiceProcess process(Arguments("--json --steps 1000000 --save " + folder_ / "out"));
  ASSERT_TRUE(process.WaitForOutput("\"step\":3,"));
  process.Signal(SIGINT);
  const ProcessResult stopped = process.Wait();
  EXPECT_EQ(stopped.exit_code, kExitInterrupted) << stopped.err;
  const Json summary = LastLine(stopped.out);
  ASSERT_TRUE(summary.is_object()) << stopped.out;
  EXPECT_EQ(summary["interrupted"], true);
  const int steps = summary["steps"];
  EXPECT_GE(steps, 3);

  const std::string total = absl::StrCat("--steps ", steps + 3);
  const Json resumed = Summary(absl::StrCat(total, " --resume ", folder_ / "out"));
  const Json whole = Summary(total);
  EXPECT_EQ(resumed["weights_hash"], whole["weights_hash"]);
  EXPECT_EQ(resumed["final_loss"], whole["final_loss"]);
  EXPECT_NE(summary["weights_hash"], whole["weights_hash"]);
}

TEST_F(TrainCommandTest, AFullDiskLeavesTheOldCheckpoint) {
  const std::string save = absl::StrCat(" --save ", folder_ / "out");
  const Json before = Summary("--steps 2" + save);
  constexpr int kLimitKib = 16;  // the weights alone are 60
  const ProcessResult full = Run("--steps 4 --save-every 1 --overwrite" + save, kLimitKib);
  EXPECT_EQ(full.signal, 0) << "crashed";
  EXPECT_EQ(full.exit_code, kExitOutOfMemory);
  EXPECT_THAT(full.err, HasSubstr(folder_ / "out"));
  EXPECT_EQ(std::count(full.err.begin(), full.err.end(), '\n'), 1) << full.err;

  const Json after = Summary("--steps 2 --resume " + folder_ / "out");
  EXPECT_EQ(after["weights_hash"], before["weights_hash"]);
  std::vector<std::string> entries;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "out")) {
    if (entry.path().parent_path().filename() != "step-00000002")
      entries.push_back(entry.path().filename());
  }
  EXPECT_THAT(entries, UnorderedElementsAre(".sluice", "format", "lock", "replaced", "latest",
                                            "step-00000002"));
}

TEST_F(TrainCommandTest, ADirectoryThatCannotBeWrittenEndsTheRunBeforeItBegins) {
  const ProcessResult result = Run("--steps 100 --json --save /proc/sluice");
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_THAT(result.err, HasSubstr("/proc/sluice"));
  EXPECT_TRUE(result.out.empty()) << "it trained first";
}

TEST_F(TrainCommandTest, RawBytesAreTakenWhereTheyAreAskedFor) {
  const Json text = Summary("");
  EXPECT_EQ(Summary("--bytes")["weights_hash"], text["weights_hash"]);
  std::filesystem::copy(folder_ / "text", folder_ / "train.bin");
  const std::string tokens =
      absl::StrCat("train --json --data ", folder_ / "train.bin", " ", WithTinyRun("--bytes"));
  const ProcessResult any = RunSluice(Words(tokens));
  ASSERT_EQ(any.exit_code, kExitDone) << any.err;
  EXPECT_EQ(LastLine(any.out)["weights_hash"], text["weights_hash"]);

  // A model of words, from scratch; what it learnt is bytes, and sample knows.
  Summary("--model gpt2 --vocab 300 --bytes --save " + folder_ / "out");
  const ProcessResult sample =
      RunSluice(Words("sample --json -n 3 --prompt And --load " + folder_ / "out"));
  ASSERT_EQ(sample.exit_code, kExitDone) << sample.err;
  EXPECT_EQ(LastLine(sample.out)["prompt_tokens"], Json({'A', 'n', 'd'}));
}

TEST_F(TrainCommandTest, TimetableFilesGiveTheirOwnSizes) {
  const std::string file = folder_ / "own.csv";
  const auto as_one_stage = Summary("--stages 1 --micro-batches 4");
  ASSERT_EQ(RunSluice(Words("schedule show interleaved -p 2 -m 4 -v 2 --format csv -o " + file))
                .exit_code,
            kExitDone);
  const std::string base = absl::StrCat(
      "train --data ", folder_ / "text", " --layers 2 --dim 16 --heads 2 --seq 16 --steps 2",
      " --micro-batch-size 2 --eval-micro-batches 1 --no-pin", " --json --schedule ", file);
  const ProcessResult result = RunSluice(Words(base));
  ASSERT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_EQ(LastLine(result.out)["weights_hash"], as_one_stage["weights_hash"]);
  for (const char* wrong : {"--stages 3", "--micro-batches 5", "--chunks 3", "--placement v"}) {
    const ProcessResult refused = RunSluice(Words(absl::StrCat(base, " ", wrong)));
    EXPECT_EQ(refused.exit_code, kExitBadInput) << wrong << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(file)) << wrong;
  }
  WriteBytes(file, "0F0,0B0,0B0\n");
  EXPECT_EQ(RunSluice(Words(base)).exit_code, kExitInvalidTimetable);
}

TEST_F(TrainCommandTest, TheBestTimetableFoundTrainsLikeOneStage) {
  const auto as_one_stage = Summary("--stages 1 --micro-batches 4");
  for (const char* cut : {"", " --placement v", " --chunks 2"}) {
    const auto found = Summary(absl::StrCat("--schedule auto --stages 2 --micro-batches 4", cut));
    EXPECT_EQ(found["weights_hash"], as_one_stage["weights_hash"]) << cut;
  }
  EXPECT_EQ(Run("--schedule auto --stages 40000 --chunks 2").exit_code, kExitBadInput);
}

TEST_F(TrainCommandTest, ActivationsCanBeRebuiltAhead) {
  const Json one = Summary("--stages 1 --micro-batches 4");
  const std::string table = folder_ / "table.csv", trace = folder_ / "trace.json";
  const ProcessResult shown =
      RunSluice(Words("schedule show 1f1b -p 2 -m 4 --recompute --format csv -o " + table));
  ASSERT_EQ(shown.exit_code, kExitDone) << shown.err;
  for (const std::string& how : {"--micro-batches 4 --recompute full --recompute-ahead"s,
                                 "--micro-batches 4 --recompute selective --recompute-ahead"s,
                                 "--micro-batches 4 --schedule " + table}) {
    const Json ahead = Summary(absl::StrCat(how, " --trace ", trace));
    EXPECT_EQ(ahead["weights_hash"], one["weights_hash"]) << how;
    const std::string page = folder_ / "page.html";
    const ProcessResult drawn = RunSluice(Words(
        absl::StrCat("schedule show ", table, " --format html -o ", page, " --measured ", trace)));
    EXPECT_EQ(drawn.exit_code, kExitDone) << how << drawn.err;
  }
  const ProcessResult nothing = Run("--recompute-ahead");
  EXPECT_EQ(nothing.exit_code, kExitBadInput);
  EXPECT_THAT(nothing.err, HasSubstr("nothing is computed again; add --recompute selective"));
}

TEST_F(TrainCommandTest, AsynchronousRunsSayHowStaleTheyAre) {
  const ProcessResult result =
      Run("--schedule pipedream --stages 2 --micro-batches 4 --steps 3 --json");
  ASSERT_EQ(result.exit_code, kExitDone) << result.err;
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const Json json = Json::parse(line);
    if (json.contains("evaluated_step")) continue;
    ASSERT_TRUE(json.contains("staleness")) << line;
    EXPECT_EQ(json["staleness"]["max"], 1) << line;
  }
  EXPECT_FALSE(Summary("--schedule 1f1b").contains("staleness"));
  EXPECT_THAT(Run("--schedule pipedream-2bw --stages 2 --micro-batches 4 --steps 3").out,
              HasSubstr("staleness at most 1 update"));
  const ProcessResult tied = Run("--schedule pipedream --tied");
  EXPECT_EQ(tied.exit_code, kExitBadInput);
  EXPECT_THAT(tied.err, HasSubstr("--tied"));
}

TEST_F(TrainCommandTest, ChimeraIsOneStageWithTwoGroups) {
  const Json one = Summary("--stages 1 --micro-batches 4 --sum-groups 2");
  EXPECT_EQ(Summary("--schedule chimera --stages 2 --micro-batches 4")["weights_hash"],
            one["weights_hash"]);
  EXPECT_NE(Summary("--stages 1 --micro-batches 4")["weights_hash"], one["weights_hash"]);
}

TEST_F(TrainCommandTest, ReplicasAreOnePipelineWithAsManyGroups) {
  const Json one = Summary("--stages 1 --micro-batches 4 --sum-groups 2");
  for (const char* how : {"", " --zero 1", " --zero 2 --sum-groups 4"}) {
    const Json wanted = std::string(how).find("groups") == std::string::npos
                            ? one
                            : Summary("--stages 1 --micro-batches 4 --sum-groups 4");
    const Json replicas =
        Summary(absl::StrCat("--stages 2 --micro-batches 2 --data-parallel 2 --overwrite --save ",
                             folder_ / "out", how));
    for (const char* field : {"weights_hash", "final_loss", "eval_loss", "steps"})
      EXPECT_EQ(replicas[field], wanted[field]) << how << " " << field;
    const std::string alone =
        absl::StrCat("--stages 3 --micro-batches 4 --resume ", folder_ / "out");
    EXPECT_EQ(Summary(absl::StrCat(alone, " --sum-groups ", wanted == one ? 2 : 4))["weights_hash"],
              wanted["weights_hash"]);
    EXPECT_THAT(Run(alone).err, HasSubstr("--sum-groups (saved "));
  }
  // Without --sum-groups, ZeRO 2 sums every micro-batch over the replicas as it comes.
  EXPECT_EQ(Summary("--stages 2 --micro-batches 2 --data-parallel 2 --zero 2")["weights_hash"],
            Summary("--stages 1 --micro-batches 4 --sum-groups 4")["weights_hash"]);
  EXPECT_THAT(Run("--stages 2 --micro-batches 2 --data-parallel 2 --zero 1").out,
              HasSubstr("replicas  2: 4 micro-batches a step, gradients in 2 sums, ZeRO 1"));
}

TEST_F(TrainCommandTest, ReplicasThatDoNotFitAreRefused) {
  struct Refusal {
    const char* flags;
    const char* why;
  };
  for (const Refusal& refusal :
       {Refusal{"--data-parallel 2 --sum-groups 3", "a multiple of the replicas"},
        Refusal{"--data-parallel 0", "--data-parallel"},
        Refusal{"--data-parallel 1025", "expected 1 to 1024"},
        Refusal{"--data-parallel 2 --zero 3", "--zero"},
        Refusal{"--data-parallel 2 --zero 2 --sum-groups 2", "ZeRO 2 would save nothing"},
        Refusal{"--data-parallel 2 --schedule chimera --stages 2", "two copies of the model"},
        Refusal{"--data-parallel 2 --schedule pipedream --stages 2", "without a flush"}}) {
    const ProcessResult refused = Run(refusal.flags);
    EXPECT_EQ(refused.exit_code, kExitBadInput) << refusal.flags;
    EXPECT_THAT(refused.err, HasSubstr(refusal.why)) << refusal.flags;
  }
}

TEST_F(TrainCommandTest, ATextThatShrinksEndsTheRun) {
  SluiceProcess process(Arguments("--json --steps 1000000"));
  ASSERT_TRUE(process.WaitForOutput("\"step\":3,"));
  std::filesystem::resize_file(folder_ / "text", 1);
  const ProcessResult stopped = process.Wait();
  EXPECT_EQ(stopped.signal, 0);
  EXPECT_EQ(stopped.exit_code, kExitBadInput) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr(folder_ / "text"));
}

TEST_F(TrainCommandTest, NoStepsHaveNoLoss) {
  EXPECT_FALSE(Summary("--steps 0").contains("final_loss"));
  EXPECT_THAT(Run("--steps 0").out, Not(HasSubstr("loss 0.0")));
}

TEST_F(TrainCommandTest, AFailedRunLeavesNoTrace) {
  const std::string trace = folder_ / "trace.json";
  const ProcessResult failed =
      Run("--steps 30 --optimizer sgd --lr 1e30 --clip 0 --trace " + trace);
  EXPECT_NE(failed.exit_code, kExitDone);
  EXPECT_FALSE(std::filesystem::exists(trace));
  EXPECT_EQ(Run("--trace " + trace).exit_code, kExitDone);
  EXPECT_GT(std::filesystem::file_size(trace), 0u);
}

// Every rank ran the row that is drawn for it.
TEST_F(TrainCommandTest, WhatStagesOfSeveralRanksRanIsDrawnUnderItsPlan) {
  const std::string trace = folder_ / "trace.json", page = folder_ / "page.html";
  const std::string deal = "--stage-replicas 2,1 ";
  ASSERT_EQ(Run(deal + "--schedule zb-h1 --micro-batches 4 --trace " + trace).exit_code, kExitDone);
  const std::string show =
      absl::StrCat("schedule show zb-h1 -m 4 --format html -o ", page, " --measured ", trace, " ");
  const ProcessResult drawn = RunSluice(Words(show + deal));
  EXPECT_EQ(drawn.exit_code, kExitDone) << drawn.err;
  EXPECT_GT(std::filesystem::file_size(page), 0u);
  const ProcessResult other = RunSluice(Words(show + "--stage-replicas 1,2"));
  EXPECT_EQ(other.exit_code, kExitBadInput);
  EXPECT_THAT(other.err, HasSubstr("rank 0 did not run 0F1"));
}

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

// A profiled chain as PipeDream has it: the slow half is there twice, the one with many parameters
// once.
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

// What a run by plan.json prints, with the weights of one stage that sums gradients in as many
// groups as it has micro-batches.
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
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("replicas  2, 1 of the stages, gradients in ",
                                                 micro_batches, " sums")));
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

TEST_F(TrainCommandTest, ATimetableOfAFileIsDealtRowByRow) {
  const std::string file = folder_ / "own.csv";
  ASSERT_EQ(RunSluice(Words("schedule show gpipe -p 2 -m 4 --format csv -o " + file)).exit_code,
            kExitDone);
  const Json dealt = Summary("--stage-replicas 1,2 --micro-batches 4 --schedule " + file);
  const Json one = Summary("--stages 1 --micro-batches 4 --sum-groups 4");
  EXPECT_EQ(dealt["weights_hash"], one["weights_hash"]);
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
    // Every rank allocates what the plan says of it.
    const auto peaks = step["peak_bytes"].get<std::vector<int64_t>>();
    EXPECT_EQ(peaks.size(), 4u);
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), largest) << "ZeRO " << zero;
    EXPECT_EQ(step["arena_bytes"], step["peak_bytes"]);
  }
}

TEST_F(TrainCommandTest, StartsFromSavedWeightsOnAnyNumberOfStages) {
  const Json saved = Summary("--steps 2 --save " + folder_ / "out");
  for (const char* stages : {"1", "2", "3", "4"}) {
    const Json started =
        Summary(absl::StrCat("--steps 0 --stages ", stages, " --init ", folder_ / "out/latest"));
    EXPECT_EQ(started["weights_hash"], saved["weights_hash"]) << stages;
  }
}

TEST_F(TrainCommandTest, TiedWeightsStartOnAnyNumberOfStages) {
  const Json saved = Summary("--tied --steps 2 --save " + folder_ / "out");
  for (const char* stages : {"1", "3"}) {
    const Json started = Summary(
        absl::StrCat("--tied --steps 0 --stages ", stages, " --init ", folder_ / "out/latest"));
    EXPECT_EQ(started["weights_hash"], saved["weights_hash"]) << stages;
  }
  EXPECT_THAT(Run("--steps 1 --init " + folder_ / "out/latest").err,
              HasSubstr("lm_head.weight; its head is tied"));
}

TEST_F(TrainCommandTest, RmsNormsAreTrainedSavedResumedAndSampled) {
  const std::string rms = "--norm rms --steps ";
  const Json saved = Summary(rms + "2 --save " + folder_ / "out");
  EXPECT_EQ(Summary(rms + "2 --stages 4 --schedule zb-h1")["weights_hash"], saved["weights_hash"]);
  EXPECT_NE(Summary("--steps 2")["final_loss"], saved["final_loss"]);
  EXPECT_EQ(Summary(rms + "3 --stages 1 --resume " + folder_ / "out")["weights_hash"],
            Summary(rms + "3")["weights_hash"]);
  EXPECT_THAT(Run("--steps 3 --resume " + folder_ / "out").err,
              HasSubstr("--norm (saved rms, given layer)"));
  EXPECT_THAT(Run("--steps 1 --init " + folder_ / "out/latest").err, HasSubstr("--norm rms"));
  const ProcessResult sample =
      RunSluice(Words(absl::StrCat("sample -n 4 --prompt And --load ", folder_ / "out")));
  EXPECT_EQ(sample.exit_code, kExitDone) << sample.err;
}

TEST_F(TrainCommandTest, WhatAPersonReadsIsNoWiderThanATerminal) {
  const std::string help = RunSluice({"train", "--help"}).out;
  const std::string sample_help = RunSluice({"sample", "--help"}).out;
  std::string outputs = help + sample_help;
  for (const char* more : {"--steps 3 --eval-every 1", "--steps 2 --stages 4 --micro-batches 4",
                           "--schedule pipedream", "--schedule dualpipev --stages 1"}) {
    const ProcessResult result = Run(more);
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    outputs += result.out;
  }
  for (const absl::string_view line : absl::StrSplit(outputs, '\n')) {
    // Paths are as long as they are.
    EXPECT_TRUE(line.size() <= kColumns || line.find('/') != absl::string_view::npos) << line;
  }
}

TEST_F(TrainCommandTest, SamplesTheSameTextFromTheSameSeed) {
  Summary("--steps 20 --lr 1e-2 --save " + folder_ / "out");
  const auto sample = [this](const std::string& more) {
    const ProcessResult result =
        RunSluice(Words(absl::StrCat("sample --load ", folder_ / "out", " -n 40 --json ", more)));
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    return Json::parse(result.out);
  };
  const Json one = sample("--prompt And --seed 1");
  EXPECT_EQ(one["tokens"].size(), 40u);  // past the 16 that the model sees at once
  EXPECT_EQ(one["tokens"], sample("--prompt And --seed 1 --threads 2")["tokens"]);
  EXPECT_NE(one["tokens"], sample("--prompt And --seed 2")["tokens"]);
  EXPECT_EQ(sample("")["prompt_tokens"], Json::array({'\n'}));
  EXPECT_EQ(sample("--temperature 0 --seed 1")["tokens"],
            sample("--temperature 0 --seed 2")["tokens"]);
  // The text form is the prompt and the same text.
  const ProcessResult text = RunSluice(
      Words(absl::StrCat("sample --load ", folder_ / "out", " -n 40 --prompt And --seed 1")));
  EXPECT_EQ(text.out, absl::StrCat("And", one["text"].get<std::string>(), "\n"));
}

TEST(HuggingFace, TransformersGivesTheSameLogits) {
  constexpr int kNoTransformers = 77;
  const char* const python = std::getenv("SLUICE_PEER_PYTHON");
  const int status =
      std::system(absl::StrCat(python != nullptr ? python : "python3", " ", SourceFolder().string(),
                               "/tests/peers/hf_parity.py ", SluiceProgram())
                      .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoTransformers) GTEST_SKIP() << "needs Python with transformers";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sluice
