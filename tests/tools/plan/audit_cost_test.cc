// What `sluice plan --audit N` says of time, against a count by hand; tests/tools/train has its bytes,
// against those that a run allocates.
#include "partitioner/planning/answer/audit_cost.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "models/spec/presets.h"
#include "partitioner/planning/answer/answer.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 6;  // the embedding, four blocks, the head
constexpr int64_t kDim = 16, kVocab = 32, kSeq = 8, kSize = 2;

// [layer] parameters.
std::vector<int64_t> Parameters() {
  const int64_t block = 12 * kDim * kDim + 13 * kDim;
  return {(kVocab + kSeq) * kDim, block, block, block, block, 2 * kDim + kVocab * kDim};
}

// Measured layers of unlike times, whose updates go through memory at `memory_bandwidth`.
PlanQuestion Question(const Link& link, double memory_bandwidth) {
  DecoderConfig gpt;
  gpt.layers = 4;
  gpt.dim = kDim;
  gpt.heads = 2;
  gpt.vocab = kVocab;
  gpt.max_seq = kSeq;
  gpt.tied_head = false;
  Profile profile;
  profile.model = "gpt";
  profile.spec = ModelSpec{"gpt", gpt};
  profile.device = "cpu";
  profile.micro_batch_size = kSize;
  profile.seq = kSeq;
  profile.link = link;
  for (int layer = 0; layer < kLayers; ++layer) {
    LayerCost cost;
    cost.name = absl::StrCat("layer ", layer);
    cost.forward_seconds = 1 + layer % 3;
    cost.input_grad_seconds = 2 + layer % 2;
    cost.weight_grad_seconds = 1;
    cost.parameters = Parameters()[static_cast<size_t>(layer)];
    cost.update_seconds = 28.0 * static_cast<double>(cost.parameters) / memory_bandwidth;
    cost.saved_bytes = {100, 100, 100};
    profile.layers.push_back(cost);
  }
  PlanQuestion question;
  question.model = "gpt.json";
  question.subject = profile;
  question.devices = 2;
  question.micro_batches = 4;
  return question;
}

constexpr double kFast = 1e30;  // takes no time
const Link kNoTime = {.latency = 0, .bandwidth = kFast};

PlanAnswer Answer(const PlanQuestion& question) {
  absl::StatusOr<PlanAnswer> answer = AnswerQuestion(question, {});
  EXPECT_TRUE(answer.ok()) << answer.status();
  return *std::move(answer);
}

double AuditSeconds(PlanQuestion question, int every) {
  const double without = Answer(question).plan.step_seconds;
  question.audit_every = every;
  const Plan plan = Answer(question).plan;
  EXPECT_NEAR(plan.step_seconds, without + plan.audit_seconds, 1e-9);
  return plan.audit_seconds;
}

// Of a micro-batch of the layers, as Question has them.
double Work(int first, int last) {
  double sum = 0;
  for (int layer = first; layer <= last; ++layer) sum += 1 + layer % 3 + 2 + layer % 2 + 1;
  return sum;
}

TEST(AuditCost, IsAMicroBatchOfTheSlowestStage) {
  PlanQuestion question = Question(kNoTime, kFast);
  question.schedule = "1f1b";
  question.partition = Partition{{0, 1}, {2, 5}};
  EXPECT_NEAR(AuditSeconds(question, 1), Work(2, 5), 1e-9);
  EXPECT_NEAR(AuditSeconds(question, 10), Work(2, 5) / 10, 1e-9);
  question.policies = {Recompute::kFull};  // an auditor drops nothing
  EXPECT_NEAR(AuditSeconds(question, 10), Work(2, 5) / 10, 1e-9);
}

TEST(AuditCost, StagesOfARankHaveTheirTurn) {
  PlanQuestion question = Question(kNoTime, kFast);
  question.schedule = "interleaved";
  question.chunks = 2;
  question.partition = Partition{{0, 0}, {1, 2}, {3, 4}, {5, 5}};
  const double first = std::max(Work(0, 0), Work(1, 2));   // ranks 0 and 1 hold stages 0 and 1,
  const double second = std::max(Work(3, 4), Work(5, 5));  // then 2 and 3
  EXPECT_NEAR(AuditSeconds(question, 5), (first + second) / 2 / 5, 1e-9);
}

TEST(AuditCost, HasWhatIsSentAndWhatIsHashed) {
  const std::vector<int64_t> parameters = Parameters();
  const auto of = [&](int first, int last) {
    int64_t sum = 0;
    for (int layer = first; layer <= last; ++layer) sum += parameters[static_cast<size_t>(layer)];
    return sum;
  };
  // Weights and gradients, tokens or activations in, and the output's gradient or targets.
  const int64_t ids = kSize * kSeq * 4, activations = ids * kDim;
  const int64_t most = std::max(8 * of(0, 1) + ids + activations, 8 * of(2, 5) + activations + ids);
  PlanQuestion question = Question({.latency = 0.5, .bandwidth = 1000}, kFast);
  question.schedule = "1f1b";
  question.partition = Partition{{0, 1}, {2, 5}};
  EXPECT_NEAR(AuditSeconds(question, 4), (Work(2, 5) + 0.5 + static_cast<double>(most) / 1000) / 4,
              1e-6);

  constexpr double kBytesPerSecond = 1e5;
  PlanQuestion slow = Question(kNoTime, kBytesPerSecond);
  slow.schedule = "1f1b";
  slow.partition = Partition{{0, 1}, {2, 5}};
  const double hashes = 2.0 * 4 * static_cast<double>(of(2, 5)) / kBytesPerSecond;
  const double message = 2.0 * static_cast<double>(most) / kBytesPerSecond;
  EXPECT_NEAR(AuditSeconds(slow, 4), hashes + (Work(2, 5) + message) / 4, 1e-6);
}

// One micro-batch is one that no other has added gradients before.
TEST(AuditCost, GradientsAreSentWhereTheyAccumulate) {
  PlanQuestion question = Question({.latency = 0, .bandwidth = 1000}, kFast);
  question.schedule = "1f1b";
  question.partition = Partition{{0, 1}, {2, 5}};
  const double several = AuditSeconds(question, 1);
  question.micro_batches = 1;
  const std::vector<int64_t> parameters = Parameters();
  const int64_t trained = parameters[2] + parameters[3] + parameters[4] + parameters[5];
  EXPECT_NEAR(several - AuditSeconds(question, 1), 4 * static_cast<double>(trained) / 1000, 1e-6);
}

// No partition takes less than the bound, which is that of a step with its audits.
TEST(AuditCost, TheBoundHoldsForEveryPartition) {
  for (const int every : {1, 3, 50}) {
    PlanQuestion question = Question({.latency = 0.1, .bandwidth = 1e6}, 1e8);
    question.schedule = "1f1b";
    question.audit_every = every;
    const Plan found = Answer(question).plan;
    EXPECT_GT(found.lower_bound, 0);
    EXPECT_LE(found.lower_bound, found.step_seconds);
    PlanQuestion plain = question;
    plain.audit_every = 0;
    EXPECT_GT(found.lower_bound, Answer(plain).plan.lower_bound);
    for (int last = 0; last + 1 < kLayers; ++last) {
      question.partition = Partition{{0, last}, {last + 1, kLayers - 1}};
      EXPECT_LE(found.lower_bound, Answer(question).plan.step_seconds * (1 + 1e-12));
    }
    question.partition.reset();
  }
}

TEST(AuditCost, NoPartitionIsBelowTheFloor) {
  PlanQuestion question = Question(kNoTime, kFast);
  question.schedule = "1f1b";
  const Machines machines = Answer(question).machines;
  EXPECT_NEAR(AuditFloor(machines, 2, 5), Work(0, kLayers - 1) / 2 / 5, 1e-9);
  EXPECT_EQ(AuditFloor(machines, 0, 5), 0);
  double least = 1e9;
  for (int last = 0; last + 1 < kLayers; ++last) {
    question.partition = Partition{{0, last}, {last + 1, kLayers - 1}};
    least = std::min(least, AuditSeconds(question, 5));
  }
  EXPECT_LE(AuditFloor(machines, 2, 5), least);
  EXPECT_GT(AuditFloor(machines, 2, 5), 0.9 * least);
  question.schedule = "interleaved";
  question.chunks = 2;
  for (int second = 1; second + 1 <= kLayers - 2; ++second) {
    question.partition =
        Partition{{0, 0}, {1, second}, {second + 1, kLayers - 2}, {kLayers - 1, kLayers - 1}};
    EXPECT_LE(AuditFloor(machines, 4, 5), AuditSeconds(question, 5));
  }
}

// Of the bottleneck of stages, which audits leave as it is, the bound is as it was.
TEST(AuditCost, LeavesTheBottleneckAlone) {
  PlanQuestion question = Question(kNoTime, kFast);
  question.objective = PlanObjective::kBottleneck;
  const Plan without = Answer(question).plan;
  question.audit_every = 1;
  const Plan with = Answer(question).plan;
  EXPECT_EQ(with.lower_bound, without.lower_bound);
  EXPECT_EQ(with.bottleneck_seconds, without.bottleneck_seconds);
  EXPECT_GT(with.step_seconds, without.step_seconds);
}

std::string WhyNot(const PlanQuestion& question) {
  return std::string(AnswerQuestion(question, {}).status().message());
}

TEST(AuditCost, IsKnownOfProcessorsThatTrain) {
  PlanQuestion question = Question(kNoTime, kFast);
  question.audit_every = 5;
  question.devices = 1;
  EXPECT_THAT(WhyNot(question), HasSubstr("--audit 5: there is one rank"));
  question = Question(kNoTime, kFast);
  question.audit_every = 5;
  for (LayerCost& layer : std::get<Profile>(question.subject).layers) layer.update_seconds = 0;
  EXPECT_THAT(WhyNot(question), HasSubstr("does not say what updates take"));
}

TEST(AuditCost, ATimeThatWasNotCountedIsNoAnswer) {
  PlanQuestion question = Question(kNoTime, kFast);
  question.audit_every = 5;
  question.schedule = "1f1b";
  question.partition = Partition{{0, 1}, {2, 5}};
  question.stop = [] { return true; };
  EXPECT_FALSE(AnswerQuestion(question, {}).ok());
}

}  // namespace
}  // namespace sluice
