// Whole runs of the program: they end as they should, and their checkpoints contain what was
// trained.

#include "tests/tools/train/train_command.h"

#include <csignal>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;
using namespace std::string_literals;

constexpr size_t kColumns = 80;

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
  // After each step, and at the end, when there is no later save that could succeed.
  const std::vector<std::string> lines = absl::StrSplit(full.err, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 5) << full.err;
  for (size_t line = 0; line < lines.size(); ++line) {
    EXPECT_THAT(lines[line], HasSubstr(absl::StrCat("cannot write ", folder_ / "out")));
    EXPECT_EQ(absl::StrContains(lines[line], "the run goes on without this checkpoint"), line < 4);
  }

  const Json after = Summary("--steps 2 --no-save --resume " + folder_ / "out");
  EXPECT_EQ(after["weights_hash"], before["weights_hash"]);
  std::vector<std::string> entries;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "out")) {
    if (entry.path().parent_path().filename() != "step-00000002")
      entries.push_back(entry.path().filename());
  }
  EXPECT_THAT(entries, UnorderedElementsAre(".sluice", "format", "lock", "replaced", "latest",
                                            "run.toml", "step-00000002"));
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

  // A model of words, trained from scratch on bytes; `sample` knows that its tokens are bytes.
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

TEST_F(TrainCommandTest, AsynchronousFilesAreOneStepEach) {
  const std::string table = folder_ / "table.csv";
  const std::string step = "--stages 2 --micro-batches 4 --schedule ";
  const auto draw = [&](const std::string& schedule) {
    const ProcessResult drawn = RunSluice(
        Words(absl::StrCat("schedule show ", schedule, " -p 2 -m 4 --format csv -o ", table)));
    ASSERT_EQ(drawn.exit_code, kExitDone) << drawn.err;
  };
  draw("pipedream");
  EXPECT_EQ(Summary(absl::StrCat(step, table, " --steps 1"))["weights_hash"],
            Summary(absl::StrCat(step, "pipedream --steps 1"))["weights_hash"]);
  const ProcessResult steps = Run(absl::StrCat(step, table, " --steps 3"));
  EXPECT_EQ(steps.exit_code, kExitDone) << steps.err;
  EXPECT_THAT(steps.out, HasSubstr("updates   every 1 micro-batch, without a flush for 1 step"));
  draw("pipedream-2bw --update-every 2");
  EXPECT_EQ(Summary(absl::StrCat(step, table, " --steps 3"))["staleness"]["max"], 1);
}

TEST_F(TrainCommandTest, HeadRowsGiveTheSameBitsOnAnyStages) {
  const std::string rows = "--micro-batch-size 4 --head-rows 16 ";
  const Json one = Summary(rows + "--stages 1");
  EXPECT_EQ(Summary(rows + "--stages 3 --schedule zb-h1")["weights_hash"], one["weights_hash"]);
  EXPECT_NE(Summary("--micro-batch-size 4 --stages 1")["weights_hash"], one["weights_hash"])
      << "sums of 16 rows at a time are other sums";
  EXPECT_EQ(Summary("--micro-batch-size 4 --stages 1 --head-rows 64")["weights_hash"],
            Summary("--micro-batch-size 4 --stages 1")["weights_hash"])
      << "all rows at a time are the usual ones";
}

TEST_F(TrainCommandTest, HeadRowsAreKeptByCheckpointsAndComeWithPlans) {
  const std::string save = folder_ / "out", rows = "--micro-batch-size 4 --head-rows 16 ";
  const Json whole = Summary(rows + "--steps 4");
  Summary(absl::StrCat(rows, "--save ", save));
  const std::string resume = absl::StrCat("train --no-pin --json --steps 4 --resume ", save);
  const ProcessResult rest = RunSluice(Words(resume + " --no-save"));
  ASSERT_EQ(rest.exit_code, kExitDone) << rest.err;
  EXPECT_EQ(LastLine(rest.out)["weights_hash"], whole["weights_hash"]);
  const ProcessResult other = RunSluice(Words(resume + " --no-save --head-rows 32"));
  EXPECT_EQ(other.exit_code, kExitBadInput);
  EXPECT_THAT(other.err, HasSubstr("--head-rows (saved 16, given 32)"));

  const std::string plan = folder_ / "plan.json";
  const ProcessResult planned = RunSluice(Words(absl::StrCat(
      "plan char-gpt --layers 2 --dim 16 --heads 2 --seq 16 --devices 2 --device cpu --memory 1GiB "
      "--dtype fp32 --micro-batches 2 --format json -o ",
      plan, " ", rows)));
  ASSERT_EQ(planned.exit_code, kExitDone) << planned.err;
  const std::string train = absl::StrCat("train --no-pin --json --eval-micro-batches 1 --steps 4 ",
                                         "--data ", folder_ / "text", " --plan ", plan);
  for (const char* more :
       {"", " --head-rows 16", " --model char-gpt --layers 2 --dim 16 --heads 2"}) {
    const ProcessResult run = RunSluice(Words(train + more));
    ASSERT_EQ(run.exit_code, kExitDone) << run.err;
    EXPECT_EQ(LastLine(run.out)["weights_hash"], whole["weights_hash"]) << more;
  }
  EXPECT_THAT(RunSluice(Words(train + " --head-rows 32")).err,
              HasSubstr("--head-rows is 32; the plan is for 16"));
  EXPECT_EQ(RunSluice(Words(absl::StrCat(train, " --save ", folder_ / "of_plan"))).exit_code,
            kExitDone);
  EXPECT_THAT(ReadBytes(folder_ / "of_plan/run.toml"), HasSubstr("\nhead-rows = 16\n"));
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
    // Paths are not shortened.
    EXPECT_TRUE(line.size() <= kColumns || line.find('/') != absl::string_view::npos) << line;
  }
}

}  // namespace
}  // namespace sluice
