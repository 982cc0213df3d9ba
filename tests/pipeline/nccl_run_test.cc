// Training over NCCL gives the bits of the CPU, on the edges that the run declares and on no
// others. NCCL and the GPUs are fakes made of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/nccl/nccl.h"
#include "pipeline/compile/replicas/tensor_edges.h"
#include "tests/comm/nccl/fake_nccl.h"
#include "tests/pipeline/fake_run.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 3;

// One GPU per rank, and the group that connects them.
class Gpus {
 public:
  explicit Gpus(const RunPlan& plan) : plan_(plan) {
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      devices_.push_back(std::make_unique<FakeDevice>(FakeDevice::Options{
          .seed = static_cast<uint64_t>(rank) + 1, .longest_pause = absl::Microseconds(100)}));
    }
  }

  FakeNccl& nccl() { return nccl_; }

  TrainOptions On(TrainOptions options) {
    for (int rank = 0; rank < plan_.world_size(); ++rank) {
      options.running.devices.push_back(
          RankOverNccl(devices_[static_cast<size_t>(rank)].get(), rank, plan_, &nccl_));
    }
    return options;
  }

 private:
  const RunPlan& plan_;
  FakeNccl nccl_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;
};

class OverNccl : public testing::TestWithParam<SmallRun> {};

TEST_P(OverNccl, TheBitsAreTheCpus) {
  const RunPlan plan = FakePlan(GetParam());
  Gpus gpus(plan);
  const absl::StatusOr<Outcome> outcome = Train(plan, gpus.On(SmallOptions(kSteps)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(GetParam(), kSteps));
  EXPECT_EQ(gpus.nccl().open(), 0);
  EXPECT_EQ(gpus.nccl().aborted(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, OverNccl,
    testing::Values(SmallRun{.ranks = 1}, SmallRun{.schedule = "gpipe", .ranks = 2},
                    SmallRun{.schedule = "1f1b", .ranks = 4, .dtype = DType::kBFloat16},
                    SmallRun{.schedule = "1f1b", .ranks = 3, .recompute = Recompute::kFull},
                    SmallRun{.schedule = "interleaved", .ranks = 2, .chunks = 3},
                    SmallRun{.schedule = "zb-h1", .ranks = 3, .micro_batches = 6},
                    SmallRun{.schedule = "zbv", .ranks = 2, .chunks = 2},
                    SmallRun{.schedule = "chimera", .ranks = 2, .chunks = 2},
                    SmallRun{.model = "tied", .ranks = 3},
                    SmallRun{.schedule = "pipedream-2bw", .ranks = 3, .micro_batches = 12},
                    SmallRun{.model = "tied", .ranks = 2, .mirror = true},
                    SmallRun{.model = "wide", .schedule = "zb-h1", .ranks = 4, .mirror = true},
                    SmallRun{.model = "wide", .ranks = 2, .replicas = 2, .zero = 0},
                    SmallRun{.model = "wide_tied", .ranks = 2, .replicas = 2, .zero = 1},
                    SmallRun{.model = "wide_tied", .ranks = 1, .replicas = 3, .zero = 2},
                    SmallRun{.model = "wide", .ranks = 2, .stage_members = {1, 2}}),
    [](const auto& param_info) { return param_info.param.Name(); });

TEST(OverNccl, APeerLostInsideACallEndsTheRun) {
  const RunPlan plan = FakePlan({.ranks = 3});
  Gpus gpus(plan);
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainEvents events;
  events.on_step = [&gpus](const StepMetrics& metrics) {
    if (metrics.step == 2) gpus.nccl().Fail("1>2", NcclResult::kRemoteError);
  };
  const absl::Status status =
      TrainInProcess(plan, data, gpus.On(SmallOptions(100000)), events, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("from rank 1 to rank 2"));
  EXPECT_EQ(gpus.nccl().open(), 0);
}

TEST(TensorEdges, AreThoseOfNeighboursReplicasMirrorsAndAuditors) {
  const std::vector<std::pair<int, int>> chain = {{0, 1}, {1, 0}, {1, 2}, {2, 1}};
  EXPECT_EQ(TensorEdges(FakePlan({.schedule = "1f1b", .ranks = 3})), chain);
  const std::vector<std::pair<int, int>> ring = {{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 1}};
  EXPECT_EQ(TensorEdges(FakePlan({.schedule = "1f1b", .ranks = 3, .mirror = true})), ring);
  EXPECT_EQ(TensorEdges(FakePlan({.schedule = "1f1b", .ranks = 3, .audit_every = 5})), ring);
  const auto edges = TensorEdges(FakePlan({.model = "wide", .ranks = 2, .replicas = 2}));
  const std::vector<std::pair<int, int>> square = {{0, 1}, {0, 2}, {1, 0}, {1, 3},
                                                   {2, 0}, {2, 3}, {3, 1}, {3, 2}};
  EXPECT_EQ(edges, square);
}

}  // namespace
}  // namespace sluice
