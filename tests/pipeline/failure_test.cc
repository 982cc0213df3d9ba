// When something goes wrong in one rank, all ranks stop, and the message says where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <new>

#include "comm/where.h"
#include "pipeline/run/rank_threads.h"
#include "tests/pipeline/haunted_layer.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return DescribeError(status); }

absl::StatusOr<Outcome> TrainWith(int haunted, const std::function<void(const LayerCall&)>& before,
                                  const TrainOptions& options) {
  RunRequest request = MakeRequest({.ranks = 3, .micro_batches = 4});
  Haunt(
      &request, [haunted](int index) { return index == haunted; }, before);
  absl::StatusOr<RunPlan> plan = CompileRun(request);
  if (!plan.ok()) return plan.status();
  return Train(*plan, options);
}

TEST(Failure, ARankThatHangsIsATimeOutThatNamesTheWaiter) {
  const RunRequest request = MakeRequest({.ranks = 3, .micro_batches = 4});
  const HashedData data(request.spec, request.batch.seq);
  TrainOptions options = SmallOptions(1);
  options.watching.timeout = absl::Seconds(1);  // no healthy rank takes so long
  const absl::Status status = TrainWithHang(
      request, [](int index) { return index == 7; }, data, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("rank "), HasSubstr("stage "), HasSubstr("micro-batch "),
                    HasSubstr("action "), HasSubstr("did not arrive in time")));
}

TEST(Failure, AValueThatIsNotFiniteIsTracedToItsLayer) {
  int call = 0;
  // The third micro-batch's input of layer 9 becomes NaN in step 1.
  auto spoil = [&call](const LayerCall& at) {
    if (call++ % 4 != 2) return;
    static_cast<float*>(const_cast<void*>(at.input))[3] = std::numeric_limits<float>::quiet_NaN();
  };
  const absl::Status status = TrainWith(9, spoil, SmallOptions(2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("step 1"), HasSubstr("layer 9"), HasSubstr("stage 1"),
                    HasSubstr("micro-batch 2"), HasSubstr("the output of")));
}

TEST(Failure, WeightsThatOverflowStopTheRun) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    TrainOptions options = SmallOptions(50);
    options.training.optimizer.lr = 1e30;
    options.training.optimizer.clip = 0;
    const absl::Status status = Train(MakePlan({.ranks = 2, .dtype = dtype}), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(MessageOf(status),
                AllOf(HasSubstr("layer "), HasSubstr("stage "), HasSubstr("micro-batch ")));
  }
}

TEST(Failure, AnErrorOfOneRankIsTheErrorOfAll) {
  InProcessGroup group(3);
  const absl::Status status =
      RunRanks(group, 3, {}, [](int rank, Communicator& communicator) -> absl::Status {
        if (rank == 1) return absl::NotFoundError("rank 1 has no weights");
        return communicator.Barrier(Instant::InfiniteFuture());
      });
  EXPECT_EQ(status.message(), "rank 1 has no weights");
}

TEST(Failure, ARankWithoutMemoryEndsTheOthers) {
  InProcessGroup group(3);
  const absl::Status status =
      RunRanks(group, 3, {}, [](int rank, Communicator& communicator) -> absl::Status {
        if (rank == 1) throw std::bad_alloc();
        return communicator.Barrier(Instant::InfiniteFuture());
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("out of memory while a rank was running"));
}

// Wherever in a step it happens: no rank hangs, and none frees what another one reads.
TEST(Failure, ALayerWithoutMemoryEndsTheRun) {
  for (int call : {0, 5}) {
    int calls = 0;
    const auto exhaust = [&](const LayerCall&) {
      if (calls++ == call) throw std::bad_alloc();
    };
    const absl::Status status = TrainWith(7, exhaust, SmallOptions(2)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr("out of memory while training"));
  }
}

TEST(Failure, AnArenaThatDoesNotFitIsRefusedBeforeItIsTouched) {
  const absl::Status status = Arena::Allocate(CpuDevice(), int64_t{1} << 50U).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("1048576.00 GiB"));
}

TEST(Failure, StagesThatDoNotFitThePartitionAreNamed) {
  RunRequest request = MakeRequest({.ranks = 2});
  request.partition.pop_back();
  EXPECT_THAT(MessageOf(CompileRun(request).status()),
              HasSubstr("the schedule has 2 stages, the partition 1"));
}

TEST(Stop, EndsAfterAStepAndSaysSo) {
  const RunPlan plan = MakePlan({.ranks = 3});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  std::atomic<bool> stop{false};
  TrainEvents events;
  events.on_step = [&stop](const StepMetrics& metrics) { stop = metrics.step >= 3; };
  absl::StatusOr<TrainResult> result =
      TrainInProcess(plan, data, SmallOptions(1000), events, &stop);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->summary.interrupted);
  EXPECT_GE(result->summary.steps, 3);
  EXPECT_LE(result->summary.steps, 5);
}

}  // namespace
}  // namespace sluice
