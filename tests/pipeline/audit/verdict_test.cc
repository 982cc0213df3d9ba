#include "pipeline/audit/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StageHashes Bits(uint64_t output) { return {.weights = 1, .output = output}; }

constexpr uint64_t kRight = 10, kWrong = 11, kOther = 12;

// Rank 3 holds the stage, rank 2 is its auditor, and rank 5 the third.
AuditAnswers Answers(uint64_t claimed, uint64_t claimed_again, uint64_t computed,
                     uint64_t computed_again) {
  return {.audited = 3,
          .auditor = 2,
          .claimed = Bits(claimed),
          .computed = Bits(computed),
          .claimed_again = Bits(claimed_again),
          .computed_again = Bits(computed_again)};
}

AuditAnswers WithThird(AuditAnswers answers, uint64_t third) {
  answers.third = 5;
  answers.third_computed = Bits(third);
  return answers;
}

TEST(Judge, AThirdRankDecides) {
  // Whether or not the one that lies repeats itself.
  for (const uint64_t again : {kRight, kWrong, kOther}) {
    EXPECT_THAT(Judge(WithThird(Answers(kWrong, again, kRight, kRight), kRight)).suspects,
                ElementsAre(3));
    EXPECT_THAT(Judge(WithThird(Answers(kRight, kRight, kWrong, again), kRight)).suspects,
                ElementsAre(2));
  }
}

TEST(Judge, WithoutAThirdTheOneThatAgreesWhenAskedAgainLied) {
  EXPECT_THAT(Judge(Answers(kWrong, kRight, kRight, kRight)).suspects, ElementsAre(3));
  EXPECT_THAT(Judge(Answers(kRight, kRight, kWrong, kRight)).suspects, ElementsAre(2));
}

TEST(Judge, WithoutAThirdTheOneThatDoesNotRepeatItselfLied) {
  EXPECT_THAT(Judge(Answers(kWrong, kOther, kRight, kRight)).suspects, ElementsAre(3));
  EXPECT_THAT(Judge(Answers(kRight, kRight, kWrong, kOther)).suspects, ElementsAre(2));
}

TEST(Judge, SaysThatNothingTells) {
  const Verdict both = Judge(Answers(kWrong, kWrong, kRight, kRight));
  EXPECT_THAT(both.suspects, ElementsAre(3, 2));
  EXPECT_THAT(both.why, HasSubstr("there is no third rank to ask, and both of them repeat"));
  const Verdict neither = Judge(Answers(kWrong, kOther, 13, 14));
  EXPECT_THAT(neither.suspects, ElementsAre(3, 2));
  EXPECT_THAT(neither.why, HasSubstr("neither of them repeats"));
  const Verdict all = Judge(WithThird(Answers(kWrong, kWrong, kRight, kRight), kOther));
  EXPECT_THAT(all.suspects, ElementsAre(3, 2, 5));
  EXPECT_THAT(all.why, HasSubstr("rank 5, which computed it as a third, agrees with neither"));
}

TEST(DifferenceOf, NamesTheFirst) {
  const StageHashes bits{
      .weights = 1, .input = 2, .output_grad = 3, .output = 4, .input_grad = 5, .gradients = 6};
  EXPECT_EQ(DifferenceOf(bits, bits), "");
  StageHashes other = bits;
  other.gradients = 0;
  EXPECT_EQ(DifferenceOf(bits, other), "weight gradients");
  other.input_grad = 0;
  EXPECT_EQ(DifferenceOf(bits, other), "input gradient");
  other.output = 0;
  EXPECT_EQ(DifferenceOf(bits, other), "output");
  other.output_grad = 0;
  EXPECT_EQ(DifferenceOf(bits, other), "output gradient");
  other.input = 0;
  EXPECT_EQ(DifferenceOf(bits, other), "input");
  other.weights = 0;
  EXPECT_EQ(DifferenceOf(bits, other), "weights");
}

}  // namespace
}  // namespace sluice
