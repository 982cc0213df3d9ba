// A rank whose hardware computes wrong (pipeline/run/bit_flip.h) is named soon, where ranks audit
// each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "models/failpoints/failpoints.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

SmallRun Audited(SmallRun run, int every = 1) {
  run.audit_every = every;
  return run;
}

// A seeded fault of one rank's hardware.
struct Flip {
  SmallRun run;
  int rank = 0;
  const char* what = "";  // as in bit_flip.h
  FaultKind kind = FaultKind::kVanish;
  // Of all times that the rank comes by the failpoint.
  int64_t hit = 1;
};

class FlippedBit : public testing::Test {
 protected:
  void TearDown() override { ArmFault(std::nullopt); }

  static void Arm(const Flip& flip) {
    ArmFault(Fault{.point = absl::StrCat("rank", flip.rank, "-", flip.what, ".flip"),
                   .hit = flip.hit,
                   .kind = flip.kind});
  }

  // How often a rank comes by the failpoint in `steps` steps.
  static int64_t HitsIn(const Flip& flip, int64_t steps) {
    ArmFault(std::nullopt);
    EXPECT_TRUE(Train(MakePlan(flip.run), SmallOptions(steps)).ok());
    return FailpointHits()[absl::StrCat("rank", flip.rank, "-", flip.what, ".flip")];
  }

  // Trains with the fault from the first time on that the rank computes in step `first`.
  static absl::Status TrainWith(Flip flip, int64_t first) {
    flip.hit = HitsIn(flip, first - 1) + 1;
    Arm(flip);
    return Train(MakePlan(flip.run), SmallOptions(first + 10)).status();
  }
};

// One flipped bit in a whole run, where the audit looks.
TEST_F(FlippedBit, OfOneMomentIsFoundWhereItIsAudited) {
  for (const char* what : {"forward", "gradient", "memory"}) {
    // With two ranks there is no third to ask; but who lied does not say the same again.
    const Flip flip{.run = Audited({.ranks = 2, .micro_batches = 1}),
                    .rank = 1,
                    .what = what,
                    .kind = FaultKind::kFail};
    const absl::Status status = TrainWith(flip, 3);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << what << DescribeError(status);
    EXPECT_EQ(WhereOf(status).rank, 1) << what << DescribeError(status);
    EXPECT_EQ(WhereOf(status).step, 3) << what << DescribeError(status);
  }
}

// Memory that loses a bit in a step that is not audited is found all the same.
TEST_F(FlippedBit, OfMemoryIsFoundInEveryStep) {
  const Flip flip{
      .run = Audited({.ranks = 2}, 100), .rank = 1, .what = "memory", .kind = FaultKind::kFail};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).rank, 1);
  EXPECT_EQ(WhereOf(status).step, 3);
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr("audit of step 3: the memory of rank 1 does not keep"),
                    HasSubstr("transformer.h.8.")));
}

// What one rank has sent is not what another has: in memory that both compute with rightly.
TEST_F(FlippedBit, OfWhatWasSentIsOneOfTheTwo) {
  const Flip flip{.run = Audited({.ranks = 3, .micro_batches = 1}),
                  .rank = 1,
                  .what = "received",
                  .kind = FaultKind::kFail};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).rank, std::nullopt);
  EXPECT_THAT(DescribeError(status),
              HasSubstr("audit of step 3: the hardware of rank 0 or rank 1 computes wrong: rank 0 "
                        "and rank 1 have different bits of the output of stage 0, micro-batch 0, "
                        "which the first has sent to the second"));
}

// Two ranks that both repeat what they say: nobody can tell, and nobody says that he can.
TEST_F(FlippedBit, OfTwoRanksThatRepeatThemselvesIsOneOfTheTwo) {
  const Flip flip{.run = Audited({.ranks = 2}), .rank = 0, .what = "forward"};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).rank, std::nullopt);
  EXPECT_THAT(DescribeError(status),
              AllOf(HasSubstr("audit of step 3: the hardware of rank 0 or rank 1 computes wrong"),
                    HasSubstr("there is no third rank to ask")));
}

TEST_F(FlippedBit, OfAReplicaIsFound) {
  for (const int zero : {0, 1, 2}) {
    for (const int rank : {1, 2}) {
      const Flip flip{.run = Audited({.model = "wide",
                                      .ranks = 2,
                                      .sum_groups = zero == 2 ? 8 : 0,
                                      .replicas = 2,
                                      .zero = zero}),
                      .rank = rank,
                      .what = "gradient"};
      const absl::Status status = TrainWith(flip, 2);
      EXPECT_EQ(WhereOf(status).rank, rank) << DescribeError(status);
      EXPECT_EQ(WhereOf(status).step, 2) << DescribeError(status);
    }
  }
}

// Replicas make the same updates, and so do the members of a stage, and a mirror; with three of
// them it is clear who differs. A rank comes by that failpoint once before its first step, so what
// TrainWith takes for step 2 is the update that ends it.
TEST_F(FlippedBit, OfAnUpdateIsFoundWhereAnotherMakesItToo) {
  const Flip three{.run = Audited({.model = "wide", .ranks = 2, .replicas = 3}),
                   .rank = 3,
                   .what = "update",
                   .kind = FaultKind::kFail};
  const absl::Status known = TrainWith(three, 2);
  EXPECT_EQ(WhereOf(known).rank, 3) << DescribeError(known);
  EXPECT_EQ(WhereOf(known).stage, 1) << DescribeError(known);
  EXPECT_EQ(WhereOf(known).step, 3) << DescribeError(known);
  EXPECT_THAT(DescribeError(known),
              HasSubstr("rank 3 and rank 1, which make the same updates, have different bits of "
                        "the weights of stage 1, and most ranks that make them agree with rank 1"));
  const Flip two{.run = Audited({.model = "wide", .ranks = 2, .replicas = 2}),
                 .rank = 3,
                 .what = "update",
                 .kind = FaultKind::kFail};
  EXPECT_THAT(DescribeError(TrainWith(two, 2)),
              AllOf(HasSubstr("audit of step 3: the hardware of rank "), HasSubstr(" or rank "),
                    HasSubstr("no majority of those that make them agrees")));
  const Flip members{.run = Audited({.micro_batches = 6, .stage_members = {1, 3}}),
                     .rank = 2,
                     .what = "update",
                     .kind = FaultKind::kFail};
  EXPECT_EQ(WhereOf(TrainWith(members, 2)).rank, 2);
  const Flip mirrored{.run = Audited({.ranks = 3, .mirror = true}),
                      .rank = 1,
                      .what = "update",
                      .kind = FaultKind::kFail};
  EXPECT_THAT(DescribeError(TrainWith(mirrored, 2)),
              AllOf(HasSubstr("audit of step 3: the hardware of rank 1 or rank 0 computes wrong"),
                    HasSubstr("no third rank makes these updates")));
}

TEST_F(FlippedBit, OfAMemberOfAStageIsFound) {
  const Flip flip{
      .run = Audited({.micro_batches = 6, .stage_members = {3, 1}}), .rank = 2, .what = "gradient"};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(WhereOf(status).rank, 2) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).step, 3) << DescribeError(status);
}

// Of a rank with several stages each has its turn.
TEST_F(FlippedBit, OfARankWithSeveralStagesIsFound) {
  const Flip flip{
      .run = Audited({.schedule = "interleaved", .ranks = 3, .chunks = 2, .micro_batches = 6}),
      .rank = 2,
      .what = "input"};
  const absl::Status status = TrainWith(flip, 3);
  EXPECT_EQ(WhereOf(status).rank, 2) << DescribeError(status);
  EXPECT_LE(WhereOf(status).step.value_or(100), 4) << DescribeError(status);
}

// What was saved since the last audit that was passed may be wrong, and is not what the run is to
// go on from.
TEST_F(FlippedBit, NothingIsSavedAfterItAndAnOlderCheckpointIsAdvised) {
  const fs::path directory = fs::path(testing::TempDir()) / "audited";
  fs::remove_all(directory);
  Flip flip{.run = Audited({.ranks = 3}, 3), .rank = 1, .what = "forward"};
  flip.hit = HitsIn(flip, 6) + 1;  // in step 7, to be found in step 9
  Arm(flip);
  TrainOptions options = SmallOptions(20);
  options.saving.directory = directory.string();
  options.saving.every = 1;
  options.saving.keep = 100;
  const absl::Status status = Train(MakePlan(flip.run), options).status();
  EXPECT_EQ(WhereOf(status).rank, 1) << DescribeError(status);
  EXPECT_EQ(WhereOf(status).step, 9) << DescribeError(status);
  // Step 6 was audited before its update.
  EXPECT_THAT(DescribeError(status), HasSubstr("the newest good checkpoint is "));
  EXPECT_THAT(DescribeError(status), HasSubstr("step-00000005: go on from it"));
  EXPECT_TRUE(fs::exists(directory / "step-00000008"));
  EXPECT_FALSE(fs::exists(directory / "step-00000009"));
  fs::remove_all(directory);
}

TEST_F(FlippedBit, IsFoundAndItsRankNamed) {
  for (const int ranks : {3, 4}) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const char* what : {"forward", "input", "gradient", "memory"}) {
        const Flip flip{.run = Audited({.ranks = ranks}, 2), .rank = rank, .what = what};
        constexpr int64_t kFirst = 4;
        const absl::Status status = TrainWith(flip, kFirst);
        const std::string name =
            absl::StrCat(ranks, " ranks, ", what, " of rank ", rank, ": ", DescribeError(status));
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name;
        const Where where = WhereOf(status);
        EXPECT_EQ(where.rank, rank) << name;
        EXPECT_EQ(where.moment, Where::Moment::kAudit) << name;
        EXPECT_GE(where.step.value_or(0), kFirst) << name;
        EXPECT_LE(where.step.value_or(0), kFirst + 1) << name;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
