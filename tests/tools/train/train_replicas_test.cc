// Replicas of the pipeline and of single stages, and mirrors, give the bits of one stage, or are
// refused.

#include <filesystem>

#include "gmock/gmock.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Json = nlohmann::json;

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
        absl::StrCat("--stages 3 --micro-batches 4 --data-parallel 1 --zero 0 --no-save --resume ",
                     folder_ / "out", " --sum-groups ");
    EXPECT_EQ(Summary(absl::StrCat(alone, wanted == one ? 2 : 4))["weights_hash"],
              wanted["weights_hash"]);
    EXPECT_THAT(Run(alone + "1").err, HasSubstr("--sum-groups (saved "));
  }
  // Without --sum-groups, ZeRO 2 sums every micro-batch over the replicas separately.
  EXPECT_EQ(Summary("--stages 2 --micro-batches 2 --data-parallel 2 --zero 2")["weights_hash"],
            Summary("--stages 1 --micro-batches 4 --sum-groups 4")["weights_hash"]);
  EXPECT_THAT(
      Run("--stages 2 --micro-batches 2 --data-parallel 2 --zero 1").out,
      HasSubstr("replicas  2: 4 micro-batches per step, gradients summed in 2 groups, ZeRO 1"));
}

TEST_F(TrainCommandTest, AMirrorCostsMemoryAndChangesNoBits) {
  const std::string plain = "--stages 3 --layers 4 --micro-batches 4";
  const ProcessResult without = Run(plain + " --json");
  const ProcessResult with = Run(plain + " --mirror --json");
  ASSERT_EQ(with.exit_code, kExitDone) << with.err;
  EXPECT_EQ(LastLine(with.out)["weights_hash"], LastLine(without.out)["weights_hash"]);
  const Json less = Json::parse(without.out.substr(0, without.out.find('\n')));
  const Json more = Json::parse(with.out.substr(0, with.out.find('\n')));
  EXPECT_EQ(more["arena_bytes"], more["peak_bytes"]);
  EXPECT_FALSE(less.contains("mirror_bytes"));
  ASSERT_EQ(more["mirror_bytes"].size(), 3u);
  for (size_t rank = 0; rank < 3; ++rank) {
    const auto mirror = more["mirror_bytes"][rank].get<int64_t>();
    EXPECT_GT(mirror, 0);
    EXPECT_EQ(more["arena_bytes"][rank].get<int64_t>() - mirror,
              less["arena_bytes"][rank].get<int64_t>());
  }
  EXPECT_THAT(Run(plain + " --mirror").out,
              ContainsRegex("mirror    of that rank 0: [0-9.]+ MiB for rank 1, rank 1: [0-9.]+ MiB "
                            "for rank 2, rank 2: [0-9.]+ MiB for rank 0\n"));
  const ProcessResult alone = Run("--stages 1 --mirror");
  EXPECT_EQ(alone.exit_code, kExitBadInput);
  EXPECT_THAT(alone.err, HasSubstr("--mirror: there is one rank"));
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
        Refusal{"--data-parallel 2 --zero 1 --mirror", "--mirror: with ZeRO 1 each replica"},
        Refusal{"--data-parallel 2 --schedule chimera --stages 2", "two copies of the model"},
        Refusal{"--schedule chimera --stages 2 --micro-batches 1", "at least 2 micro-batches"},
        Refusal{"--data-parallel 2 --schedule pipedream --stages 2", "without a flush"}}) {
    const ProcessResult refused = Run(refusal.flags);
    EXPECT_EQ(refused.exit_code, kExitBadInput) << refusal.flags;
    EXPECT_THAT(refused.err, HasSubstr(refusal.why)) << refusal.flags;
  }
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

TEST_F(TrainCommandTest, ATimetableOfAFileIsDealtRowByRow) {
  const std::string file = folder_ / "own.csv";
  ASSERT_EQ(RunSluice(Words("schedule show gpipe -p 2 -m 4 --format csv -o " + file)).exit_code,
            kExitDone);
  const Json dealt = Summary("--stage-replicas 1,2 --micro-batches 4 --schedule " + file);
  const Json one = Summary("--stages 1 --micro-batches 4 --sum-groups 4");
  EXPECT_EQ(dealt["weights_hash"], one["weights_hash"]);
}

}  // namespace
}  // namespace sluice
