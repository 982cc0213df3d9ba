#include "pipeline/checkpoint/files/hyper_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// None of these values is a default.
HyperParameters Unusual() {
  HyperParameters values;
  values.optimizer = {.lr = 4e-3,
                      .weight_decay = 0.25,
                      .clip = 0.5,
                      .beta1 = 0.8,
                      .beta2 = 0.99,
                      .momentum = 0.7,
                      .warmup = 10,
                      .schedule = LrSchedule::kCosine,
                      .final_lr_fraction = 0.2};
  values.steps = 60;
  return values;
}

void ExpectEqual(const HyperParameters& a, const HyperParameters& b) {
  EXPECT_EQ(ToNamedNumbers(a), ToNamedNumbers(b));
}

ResumedHyperParameters Resume(const std::map<std::string, double>& saved,
                              const GivenHyperParameters& given,
                              OptimizerKind kind = OptimizerKind::kAdamW) {
  const absl::StatusOr<ResumedHyperParameters> resumed =
      ResumeHyperParameters(saved, HyperParameters(), given, kind);
  EXPECT_TRUE(resumed.ok()) << resumed.status();
  return resumed.value_or(ResumedHyperParameters());
}

TEST(HyperParameters, NamesAreThoseOfOlderCheckpoints) {
  const std::map<std::string, double> named = ToNamedNumbers(Unusual());
  for (const auto& [name, value] : std::map<std::string, double>{{"lr", 4e-3},
                                                                 {"weight_decay", 0.25},
                                                                 {"clip", 0.5},
                                                                 {"beta1", 0.8},
                                                                 {"beta2", 0.99},
                                                                 {"momentum", 0.7},
                                                                 {"warmup", 10},
                                                                 {"cosine", 1},
                                                                 {"steps", 60}}) {
    ASSERT_TRUE(named.contains(name)) << name;
    EXPECT_EQ(named.at(name), value) << name;
  }
}

TEST(HyperParameters, WhatIsNotGivenIsTheCheckpoints) {
  const ResumedHyperParameters resumed = Resume(ToNamedNumbers(Unusual()), {});
  ExpectEqual(resumed.values, Unusual());
  EXPECT_THAT(resumed.differences, IsEmpty());
}

TEST(HyperParameters, WhatIsGivenAndTheSameIsNotWorthALine) {
  GivenHyperParameters given{.lr = 4e-3, .weight_decay = 0.25, .clip = 0.5, .momentum = 0.7};
  given.warmup = 10;
  given.schedule = LrSchedule::kCosine;
  given.steps = 60;
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    const ResumedHyperParameters resumed = Resume(ToNamedNumbers(Unusual()), given, kind);
    ExpectEqual(resumed.values, Unusual());
    EXPECT_THAT(resumed.differences, IsEmpty());
  }
}

TEST(HyperParameters, EachDifferenceIsALineAndTheGivenValueWins) {
  GivenHyperParameters given{.lr = 1e-3, .weight_decay = 0, .clip = 1e300, .momentum = 0.5};
  given.warmup = 0;
  given.steps = 90;
  const ResumedHyperParameters resumed =
      Resume(ToNamedNumbers(Unusual()), given, OptimizerKind::kSgd);
  ExpectEqual(resumed.values, WithGiven(Unusual(), given));
  EXPECT_THAT(resumed.differences,
              ElementsAre("lr 0.004 in the checkpoint, 0.001 given: going on with 0.001",
                          "weight-decay 0.25 in the checkpoint, 0 given: going on with 0",
                          "clip 0.5 in the checkpoint, 1e+300 given: going on with 1e+300",
                          "momentum 0.7 in the checkpoint, 0.5 given: going on with 0.5",
                          "warmup 10 in the checkpoint, 0 given: going on with 0",
                          "steps 60 in the checkpoint, 90 given: going on along a cosine of 90"));
}

TEST(HyperParameters, MomentumIsOfNoConsequenceToAdamW) {
  EXPECT_THAT(Resume(ToNamedNumbers(Unusual()), {.momentum = 0.5}).differences, IsEmpty());
}

TEST(HyperParameters, NumbersThatDifferInTheLastBitAreToldApart) {
  GivenHyperParameters given{.lr = 4e-3 + 1e-18};
  ASSERT_NE(*given.lr, 4e-3);
  EXPECT_THAT(Resume(ToNamedNumbers(Unusual()), given).differences,
              ElementsAre(HasSubstr("lr 0.004 in the checkpoint, 0.004000000000000001 given")));
}

TEST(HyperParameters, StepsAreTheCheckpointsUnderACosineOnly) {
  HyperParameters constant = Unusual();
  constant.optimizer.schedule = LrSchedule::kConstant;
  const auto saved = ToNamedNumbers(constant);
  EXPECT_EQ(Resume(saved, {}).values.steps, HyperParameters().steps);
  GivenHyperParameters longer;
  longer.steps = 90;
  EXPECT_EQ(Resume(saved, longer).values.steps, 90);
  EXPECT_THAT(Resume(saved, longer).differences, IsEmpty());
  // A cosine begins: over the number of steps that the run was meant to have.
  GivenHyperParameters cosine;
  cosine.schedule = LrSchedule::kCosine;
  EXPECT_EQ(Resume(saved, cosine).values.steps, 60);
  EXPECT_THAT(Resume(saved, cosine).differences,
              ElementsAre("lr-schedule constant in the checkpoint, cosine given: going on with "
                          "cosine"));
  // A cosine ends, and with it the meaning of the number of steps.
  cosine.schedule = LrSchedule::kConstant;
  cosine.steps = 90;
  EXPECT_THAT(Resume(ToNamedNumbers(Unusual()), cosine).differences,
              ElementsAre(HasSubstr("lr-schedule cosine in the checkpoint, constant given")));
}

TEST(HyperParameters, AnOlderCheckpointMayLackAny) {
  const HyperParameters usual;
  for (const auto& [name, value] : ToNamedNumbers(Unusual())) {
    auto saved = ToNamedNumbers(Unusual());
    saved.erase(name);
    const auto resumed = ToNamedNumbers(Resume(saved, {}).values);
    EXPECT_EQ(resumed.at(name), ToNamedNumbers(usual).at(name)) << name;
  }
  ExpectEqual(Resume({}, {.lr = 0.5}).values, WithGiven(usual, {.lr = 0.5}));
  EXPECT_THAT(Resume({}, {.lr = 0.5}).differences, IsEmpty());
}

TEST(HyperParameters, ANumberThatNoRunCanUseIsRefusedUnlessAnotherIsGiven) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, double>>{{"lr", 1e39},
                                                   {"weight_decay", 1e300},
                                                   {"momentum", -1},
                                                   {"warmup", 0.5},
                                                   {"warmup", 0x1p63},
                                                   {"steps", 1e300}}) {
    auto saved = ToNamedNumbers(Unusual());
    saved[name] = value;
    const absl::Status status =
        ResumeHyperParameters(saved, {}, {}, OptimizerKind::kAdamW).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
  auto saved = ToNamedNumbers(Unusual());
  saved["lr"] = 1e39;
  EXPECT_THAT(Resume(saved, {.lr = 1e-3}).differences,
              ElementsAre("lr 1e+39 in the checkpoint, 0.001 given: going on with 0.001"));
}

}  // namespace
}  // namespace sluice
