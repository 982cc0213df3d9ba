// Ranks that share only a network connection, each with its own plan, data and state, compute what
// the threads of one process compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "comm/local/in_process.h"
#include "models/failpoints/failpoints.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/comm/tcp/tcp_group.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 3;
constexpr absl::Duration kShortTimeout = absl::Seconds(3);

struct RankEnd {
  absl::Status status;
  Outcome outcome;
};

// Calls `train` for each rank on a thread of its own, with its end of a group over the loopback
// interface.
void OnEachRank(int ranks, const std::function<void(int rank, Communicator& world)>& train) {
  const std::vector<std::unique_ptr<Communicator>> group = MakeTcpGroup(ranks, {});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { train(rank, *group[static_cast<size_t>(rank)]); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<RankEnd> TrainOverTcp(const SmallRun& run, const TrainOptions& options) {
  const int ranks = MakePlan(run).world_size();
  std::vector<RankEnd> ends(static_cast<size_t>(ranks));
  OnEachRank(ranks, [&](int rank, Communicator& world) {
    const RunPlan plan = MakePlan(run);
    const HashedData data(plan.request.spec, plan.request.batch.seq);
    RankEnd& end = ends[static_cast<size_t>(rank)];
    TrainEvents events;
    events.on_step = [&end](const StepMetrics& metrics) {
      end.outcome.losses.push_back(LossHex(metrics.loss));
      end.outcome.norms.push_back(metrics.grad_norm);
    };
    absl::StatusOr<TrainResult> result = TrainRank(plan, data, options, events, nullptr, world);
    end.status = result.status();
    if (!result.ok()) return;
    end.outcome.weights_hash = result->summary.weights_hash;
    end.outcome.eval_loss = result->summary.eval_loss;
  });
  return ends;
}

// How the ranks of `plan` end, of which each is given other options by `options_of`.
std::vector<absl::Status> Ends(const RunPlan& plan,
                               const std::function<TrainOptions(int rank)>& options_of) {
  std::vector<absl::Status> ends(static_cast<size_t>(plan.world_size()));
  OnEachRank(plan.world_size(), [&](int rank, Communicator& world) {
    const HashedData data(plan.request.spec, plan.request.batch.seq);
    ends[static_cast<size_t>(rank)] =
        TrainRank(plan, data, options_of(rank), {}, nullptr, world).status();
  });
  return ends;
}

class TrainRankTest : public testing::TestWithParam<SmallRun> {};

TEST_P(TrainRankTest, GivesTheBitsOfOneProcess) {
  const fs::path directory = fs::path(testing::TempDir()) / ("rank_" + GetParam().Name());
  fs::remove_all(directory);
  TrainOptions options = SmallOptions(kSteps);
  absl::StatusOr<Outcome> wanted = Train(MakePlan(GetParam()), options);
  ASSERT_TRUE(wanted.ok()) << wanted.status();

  options.saving.directory = directory.string();
  const std::vector<RankEnd> ends = TrainOverTcp(GetParam(), options);
  for (const RankEnd& end : ends) ASSERT_EQ(end.status, absl::OkStatus());
  EXPECT_EQ(ends.front().outcome, *wanted);
  // The others are told nothing while it runs; what an evaluation found, all have computed.
  const Outcome theirs{.losses = {}, .norms = {}, .eval_loss = wanted->eval_loss};
  for (size_t rank = 1; rank < ends.size(); ++rank) EXPECT_EQ(ends[rank].outcome, theirs);

  // A run resumed from rank 0's checkpoint continues as the first one would have.
  TrainOptions more = SmallOptions(kSteps + 1);
  absl::StatusOr<Outcome> whole = Train(MakePlan(GetParam()), more);
  more.saving.resume = directory.string();
  const std::vector<RankEnd> resumed = TrainOverTcp(GetParam(), more);
  ASSERT_EQ(resumed.front().status, absl::OkStatus());
  EXPECT_EQ(resumed.front().outcome.weights_hash, whole->weights_hash);
  fs::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(
    Runs, TrainRankTest,
    testing::Values(SmallRun{.model = "wide_tied", .ranks = 3},
                    SmallRun{.model = "wide", .ranks = 2, .replicas = 2},
                    SmallRun{.model = "wide_tied", .ranks = 2, .replicas = 3, .zero = 1},
                    SmallRun{.model = "wide_tied",
                             .schedule = "zb-h1",
                             .ranks = 2,
                             .dtype = DType::kBFloat16,
                             .replicas = 2,
                             .zero = 2},
                    SmallRun{.schedule = "chimera", .ranks = 2, .chunks = 2},
                    SmallRun{.schedule = "pipedream-2bw", .ranks = 2}),
    [](const auto& run) { return run.param.Name(); });

// Of which a file is written to once it has been looked at so often.
class ChangedData : public HashedData {
 public:
  ChangedData(const RunPlan& plan, int looks)
      : HashedData(plan.request.spec, plan.request.batch.seq), looks_(looks) {}
  absl::Status CheckUnchanged() const override {
    return looks_-- > 0 ? absl::OkStatus()
                        : absl::FailedPreconditionError("corpus.txt has been written to");
  }

 private:
  mutable int looks_;
};

// Also where the first rank looks a moment too early.
TEST(TrainRank, NamesTheFileThatHasChanged) {
  const RunPlan plan = MakePlan({.ranks = 2});
  for (const int early : {0, 1}) {
    std::vector<absl::Status> ends(2);
    OnEachRank(2, [&](int rank, Communicator& world) {
      const ChangedData data(plan, rank == early ? 1 : 0);
      ends[static_cast<size_t>(rank)] =
          TrainRank(plan, data, SmallOptions(kSteps), {}, nullptr, world).status();
    });
    for (const absl::Status& end : ends) {
      EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(end.message()),
                  testing::HasSubstr("corpus.txt has been written to;"));
    }
  }
}

// A rank that cannot start tells all others why.
TEST(TrainRank, TellsTheOthersWhyItEnds) {
  const SmallRun run{.model = "wide", .ranks = 2, .replicas = 2};
  const std::vector<absl::Status> ends = Ends(MakePlan(run), [](int rank) {
    TrainOptions options = SmallOptions(kSteps);
    if (rank == 3) options.saving.resume = "/nowhere/at/all";
    return options;
  });
  for (const absl::Status& end : ends)
    EXPECT_THAT(std::string(end.message()), testing::HasSubstr("/nowhere/at/all"));
}

// Checkpoints of a step of the same run with other learning rates, and ranks of which the last one
// begins with those of another folder than the rest.
class OtherWeights : public testing::TestWithParam<SmallRun> {
 protected:
  OtherWeights() { fs::remove_all(folder_); }
  ~OtherWeights() override { fs::remove_all(folder_); }

  std::string Saved(const char* name, double lr) const {
    TrainOptions options = SmallOptions(1);
    options.training.optimizer.lr = lr;
    options.saving.directory = (folder_ / name).string();
    EXPECT_TRUE(Train(MakePlan(GetParam()), options).ok());
    return (folder_ / name / "latest").string();
  }

  // The first rank's answer; `set` puts in where a rank begins.
  static std::string Said(const std::function<void(Saving*, const std::string&)>& set,
                          const std::string& first, const std::string& last) {
    const RunPlan plan = MakePlan(GetParam());
    const std::vector<absl::Status> ends = Ends(plan, [&](int rank) {
      TrainOptions options = SmallOptions(kSteps);
      options.training.given.lr = options.training.optimizer.lr;  // else they differ in that too
      set(&options.saving, rank + 1 == plan.world_size() ? last : first);
      return options;
    });
    for (const absl::Status& end : ends) EXPECT_EQ(end.code(), ends.front().code());
    return std::string(ends.front().message());
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("other_weights_" + GetParam().Name());
};

TEST_P(OtherWeights, AreNotMixed) {
  const std::string a = Saved("a", 0.01), b = Saved("b", 0.02);
  const auto init = [](Saving* saving, const std::string& path) { saving->init = path; };
  const std::string said = Said(init, a, b);
  EXPECT_THAT(said, testing::HasSubstr("not all ranks were started alike; different from rank 0: "
                                       "the weights to begin with (rank "));
  EXPECT_THAT(said, testing::HasSubstr("give all ranks copies of the same files"));
  const std::string copy = (folder_ / "copy").string();
  fs::copy(fs::canonical(a), copy);
  EXPECT_EQ(Said(init, a, copy), "");
  const auto resume = [](Saving* saving, const std::string& path) { saving->resume = path; };
  EXPECT_THAT(Said(resume, a, b), testing::HasSubstr("the checkpoint to go on from (rank "));
  EXPECT_EQ(Said(resume, a, copy), "");
}

// The disk of one rank takes longer than the time-out to open the first file of where the run begins.
TEST_P(OtherWeights, MayTakeLongToBeOpened) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  const std::string saved = Saved("a", 0.01);
  for (std::string Saving::*const from : {&Saving::init, &Saving::resume}) {
    ArmFault(Fault{.point = "disk.open",
                   .kind = FaultKind::kDelay,
                   .delay = kShortTimeout + absl::Seconds(1)});
    const std::vector<absl::Status> ends = Ends(MakePlan(GetParam()), [&](int) {
      TrainOptions options = SmallOptions(kSteps);
      options.watching.timeout = kShortTimeout;
      options.saving.*from = saved;
      return options;
    });
    EXPECT_TRUE(FaultHappened());
    for (const absl::Status& end : ends) EXPECT_EQ(end, absl::OkStatus());
  }
  ArmFault(std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Runs, OtherWeights,
                         testing::Values(SmallRun{.ranks = 2}, SmallRun{.ranks = 1, .replicas = 2}),
                         [](const auto& run) { return run.param.Name(); });

// The n-th wait for a message ends as where that is late. What the transport may still write, it
// writes until Abort.
class LateMessage : public ForwardingCommunicator {
 public:
  LateMessage(Communicator* inner, int late) : ForwardingCommunicator(inner), left_(late) {}
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override {
    absl::Status status = inner().PostReceive(from, data, bytes, ticket);
    if (status.ok()) awaited_[{from, *ticket}] = {data, bytes};
    return status;
  }
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    if (--left_ == 0) return absl::DeadlineExceededError("this message is late");
    absl::Status status = inner().WaitReceive(from, ticket, deadline);
    if (status.ok()) awaited_.erase({from, ticket});
    return status;
  }
  void Abort(const absl::Status& status) override {
    inner().Abort(status);  // after which the other ranks write no more
    for (const auto& [message, memory] : awaited_) std::memset(memory.data, 0, memory.bytes);
    awaited_.clear();
  }

 private:
  struct Memory {
    void* data = nullptr;
    size_t bytes = 0;
  };
  int left_;
  std::map<std::pair<int, Ticket>, Memory> awaited_;
};

// AddressSanitizer sees where memory is freed before: in whatever a rank waits for.
TEST(TrainRank, KeepsTheMemoryOfMessagesUntilTheyAreAborted) {
  SmallRun mirrored{.model = "tied", .ranks = 2, .micro_batches = 2};
  mirrored.mirror = true;
  for (const SmallRun& run :
       {SmallRun{.model = "wide_tied", .ranks = 2, .micro_batches = 2},
        SmallRun{.model = "wide", .ranks = 1, .micro_batches = 2, .replicas = 2, .zero = 1},
        mirrored}) {
    const RunPlan plan = MakePlan(run);
    const HashedData data(plan.request.spec, plan.request.batch.seq);
    bool whole = false;
    int late = 1;
    for (; !whole && !HasFailure(); late += kSanitized ? 1 : 3) {
      SCOPED_TRACE(testing::Message() << run.Name() << ", message " << late);
      InProcessGroup group(2, EdgeCapacity(plan));
      LateMessage world(&group.communicator(1), late);
      absl::Status other;
      std::thread first([&] {
        other = TrainRank(plan, data, SmallOptions(1), {}, nullptr, group.communicator(0)).status();
      });
      const absl::Status end = TrainRank(plan, data, SmallOptions(1), {}, nullptr, world).status();
      first.join();
      whole = end.ok();
      EXPECT_EQ(other.ok(), whole) << other;
      if (!whole) {
        EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
      }
    }
    EXPECT_GT(late, 3);
  }
}

}  // namespace
}  // namespace sluice
