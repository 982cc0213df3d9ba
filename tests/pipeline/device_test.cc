// Training on a device that does its work late, on streams, gives the bits of the CPU: nothing is
// read before it is written, nothing is overwritten before it is read. The thread sanitizer shows a
// violation whatever the timing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "comm/device_group.h"
#include "comm/where.h"
#include "models/failpoints/failpoints.h"
#include "pipeline/compile/replicas/tensor_edges.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/pipeline/fake_run.h"
#include "tests/pipeline/haunted_layer.h"
#include "tests/pipeline/kept_run.h"
#include "tests/pipeline/trace/trace_facts.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kSteps = 3;

// The devices of a run, and the group that connects its ranks.
class Devices {
 public:
  // `count` devices, taken in turn by the ranks.
  Devices(const RunPlan& plan, int count, const FakeDevice::Options& options = {})
      : group_(plan.world_size(), EdgeCapacity(plan)), ranks_(plan.world_size()) {
    for (int i = 0; i < count; ++i) devices_.push_back(std::make_unique<FakeDevice>(options));
  }

  FakeDevice& device(size_t i) { return *devices_[i % devices_.size()]; }

  TrainOptions On(TrainOptions options) {
    for (int rank = 0; rank < ranks_; ++rank) {
      options.running.devices.push_back(
          RankOnDevice(devices_[static_cast<size_t>(rank) % devices_.size()].get(), rank, &group_));
    }
    return options;
  }

 private:
  std::vector<std::unique_ptr<FakeDevice>> devices_;
  DeviceGroup group_;
  int ranks_;
};

const std::vector<SmallRun>& MirroredRuns() {
  static const auto* const kRuns =
      new std::vector<SmallRun>{{.model = "tied", .ranks = 3, .mirror = true},
                                {.model = "wide_tied",
                                 .schedule = "zbv",
                                 .ranks = 2,
                                 .chunks = 2,
                                 .dtype = DType::kBFloat16,
                                 .master_weights = MasterWeights::kSplit,
                                 .mirror = true},
                                {.schedule = "interleaved",
                                 .ranks = 2,
                                 .chunks = 3,
                                 .optimizer = OptimizerKind::kSgd,
                                 .mirror = true,
                                 .adapted = "lora"}};
  return *kRuns;
}

std::vector<SmallRun> Runs() {
  std::vector<SmallRun> runs = {
      {.ranks = 1},
      {.schedule = "gpipe", .ranks = 2, .dtype = DType::kBFloat16},
      {.schedule = "1f1b", .ranks = 4, .partition_seed = 7},
      {.schedule = "1f1b", .ranks = 3, .recompute = Recompute::kFull},
      {.schedule = "1f1b", .ranks = 3, .recompute = Recompute::kFull, .recompute_ahead = true},
      {.schedule = "1f1b", .ranks = 2, .recompute = Recompute::kSelective, .sum_groups = 2},
      {.schedule = "interleaved", .ranks = 2, .chunks = 3},
      {.schedule = "zb-h1", .ranks = 3, .micro_batches = 6, .optimizer = OptimizerKind::kSgd},
      {.schedule = "zbv", .ranks = 2, .chunks = 2},
      {.schedule = "chimera", .ranks = 2, .chunks = 2},
      {.model = "tied",
       .ranks = 1,
       .dtype = DType::kBFloat16,
       .master_weights = MasterWeights::kSplit},
      {.model = "wide",
       .ranks = 2,
       .dtype = DType::kBFloat16,
       .master_weights = MasterWeights::kSplit,
       .replicas = 2,
       .zero = 2},
      {.model = "tied", .ranks = 3},
      {.model = "tied", .ranks = 1},
      {.model = "rms", .schedule = "zb-h1", .ranks = 2, .dtype = DType::kBFloat16},
      {.model = "mlp", .schedule = "interleaved", .ranks = 2, .chunks = 2},
      {.schedule = "pipedream-2bw", .ranks = 3, .micro_batches = 12},
      {.schedule = "pipedream", .ranks = 2, .micro_batches = 6},
  };
  for (int zero = 0; zero <= 2; ++zero) {
    runs.push_back({.model = "wide", .ranks = 2, .replicas = 2, .zero = zero});
    runs.push_back({.model = "wide_tied", .ranks = 1, .replicas = 3, .zero = zero});
  }
  runs.insert(runs.end(), MirroredRuns().begin(), MirroredRuns().end());
  for (SmallRun run : std::vector<SmallRun>{
           {.ranks = 3, .mirror = true},
           {.model = "tied", .ranks = 2, .recompute = Recompute::kFull},
           {.model = "wide", .schedule = "zbv", .ranks = 2, .chunks = 2, .replicas = 2},
           {.schedule = "interleaved",
           .ranks = 2,
           .chunks = 3,
           .dtype = DType::kBFloat16,
           .master_weights = MasterWeights::kSplit,
           .adapted = "lora"}}) {
    run.audit_every = 1;
    runs.push_back(run);
  }
  runs.push_back({.model = "wide", .ranks = 2, .micro_batches = 6, .stage_members = {3, 1}});
  runs.push_back({.model = "tied", .ranks = 2, .micro_batches = 6, .stage_members = {2, 3}});
  runs.push_back({.model = "wide",
                  .schedule = "zb-h1",
                  .ranks = 3,
                  .sum_groups = 2,
                  .zero = 1,
                  .stage_members = {1, 2, 1}});
  return runs;
}

// The first weights are drawn by several threads, and zeros brought to the device once: a state has
// what one on the host has, also where it held something before.
TEST(InitialState, IsTheHostsHoweverItIsBroughtToADevice) {
  for (const SmallRun& run : std::vector<SmallRun>{
           {.model = "tied", .ranks = 1},
           {.model = "wide_tied", .ranks = 1, .replicas = 3, .zero = 2},
           {.ranks = 1, .dtype = DType::kBFloat16, .master_weights = MasterWeights::kSplit},
           {.ranks = 1, .optimizer = OptimizerKind::kSgd, .adapted = "lora"}}) {
    const RunPlan plan = FakePlan(run);
    for (int rank = 0; rank < plan.world_size(); ++rank) {
      FakeDevice device;
      const std::unique_ptr<RankState> on_device = *RankState::Create(plan, rank, device);
      const std::unique_ptr<RankState> on_host = *RankState::Create(plan, rank);
      on_host->Initialize(5);
      for (const bool used : {false, true}) {
        for (const ParameterView& view : on_device->parameters()) {
          if (!used || view.moment1 == nullptr) continue;
          std::fill_n(view.moment1, view.count, 3.0f);  // the device's memory is the machine's
        }
        on_device->Initialize(5);
        ASSERT_TRUE(
            device.Synchronize(on_device->stream(), Instant::Now() + absl::Seconds(60)).ok());
        for (size_t p = 0; p < on_host->parameters().size(); ++p) {
          const ParameterView& mine = on_device->parameters()[p];
          const ParameterView& hosts = on_host->parameters()[p];
          EXPECT_EQ(std::memcmp(mine.weight, hosts.weight, static_cast<size_t>(mine.decl->bytes())),
                    0);
          for (const float* moment : {mine.moment1, mine.moment2}) {
            if (moment == nullptr) continue;
            EXPECT_THAT(absl::MakeConstSpan(moment, static_cast<size_t>(mine.count)),
                        testing::Each(0.0f));
          }
        }
      }
    }
  }
}

// Records which rank sends to which.
class WatchedSends : public ForwardingCommunicator {
 public:
  using Seen = std::set<std::pair<int, int>>;
  WatchedSends(std::unique_ptr<Communicator> group, std::mutex* mutex, Seen* seen)
      : ForwardingCommunicator(group.get()),
        group_(std::move(group)),
        mutex_(*mutex),
        seen_(*seen) {}
  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override {
    {
      const std::lock_guard lock(mutex_);
      seen_.emplace(rank(), to);
    }
    return inner().PostSend(to, data, bytes, ticket);
  }

 private:
  const std::unique_ptr<Communicator> group_;
  std::mutex& mutex_;
  Seen& seen_;
};

class OnADevice : public testing::TestWithParam<SmallRun> {};

TEST_P(OnADevice, TheBitsAreTheCpus) {
  const RunPlan plan = FakePlan(GetParam());
  for (const int count : {1, plan.world_size()}) {
    Devices devices(
        plan, count,
        {.seed = static_cast<uint64_t>(count), .longest_pause = absl::Microseconds(200)});
    absl::StatusOr<Outcome> outcome = Train(plan, devices.On(SmallOptions(kSteps)));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(*outcome, OutcomeOnce(GetParam(), kSteps)) << count << " devices";
    EXPECT_EQ(devices.device(0).allocated(), 0);
    EXPECT_EQ(devices.device(0).replays(), 0);
  }
}

// The device repeats from a recording the work of the first step, with the right bits.
TEST_P(OnADevice, StepsThatAreReplayedHaveTheSameBits) {
  const RunPlan plan = FakePlan(GetParam());
  Devices devices(plan, 1, {.longest_pause = absl::Microseconds(100), .records = true});
  absl::StatusOr<Outcome> outcome = Train(plan, devices.On(SmallOptions(kSteps)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, OutcomeOnce(GetParam(), kSteps));
  const int replays = devices.device(0).replays();
  // An asynchronous run changes its weights within a pass, so its passes differ; and what an
  // audited pass records is not in others.
  if (plan.asynchronous() || plan.audits()) {
    EXPECT_EQ(replays, 0);
  } else {
    EXPECT_GE(replays, static_cast<int>(kSteps - 1) * plan.world_size() * 2);
  }
}

TEST_P(OnADevice, MemoryIsWhatTheCpusPlanSays) {
  const RunPlan plan = FakePlan(GetParam());
  const RunPlan cpu = MakePlan(GetParam());
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    FakeDevice device;
    absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, rank, device);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(device.allocated(), cpu.arenas[static_cast<size_t>(rank)].memory.total);
  }
}

TEST_P(OnADevice, TensorsTravelOnTheEdgesOfThePlanAndOnAllOfThem) {
  const RunPlan plan = FakePlan(GetParam());
  Devices devices(plan, 1);
  TrainOptions options = devices.On(SmallOptions(1));
  std::mutex mutex;
  WatchedSends::Seen seen;
  for (RankDevice& device : options.running.devices) {
    device.connect = [&, connect = device.connect](
                         Stream stream,
                         Communicator* world) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      return std::make_unique<WatchedSends>(*connect(stream, world), &mutex, &seen);
    };
  }
  ASSERT_TRUE(Train(plan, options).ok());
  const std::vector<std::pair<int, int>> edges = TensorEdges(plan);
  EXPECT_EQ(std::vector(seen.begin(), seen.end()), edges);
}

INSTANTIATE_TEST_SUITE_P(Runs, OnADevice, testing::ValuesIn(Runs()),
                         [](const auto& param_info) { return param_info.param.Name(); });

TEST(DeviceRun, AMirrorHasTheBitsOfTheRankThatItMirrors) {
  for (const SmallRun& run : MirroredRuns()) {
    const RunPlan plan = FakePlan(run);
    Devices devices(plan, plan.world_size(), {.longest_pause = absl::Microseconds(100)});
    const absl::StatusOr<KeptRun> kept = TrainAndKeep(plan, devices.On(SmallOptions(kSteps)));
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(MirrorDifferences(kept->states), "") << run.Name();
  }
}

TEST(DeviceRun, ACheckpointMovesBetweenDeviceAndCpu) {
  const SmallRun run{.model = "wide_tied", .ranks = 2, .replicas = 2, .zero = 1};
  const Outcome& whole = OutcomeOnce(run, 4);
  const fs::path folder = fs::path(testing::TempDir()) / "device_checkpoint";
  fs::remove_all(folder);
  const RunPlan fake = FakePlan(run);
  const RunPlan cpu = MakePlan(run);
  TrainOptions first = SmallOptions(4);
  first.saving.directory = folder / "cpu";
  first.saving.every = 2;
  ASSERT_TRUE(Train(cpu, first).ok());

  TrainOptions second = SmallOptions(4);
  second.saving.resume = folder / "cpu" / "step-00000002";
  second.saving.directory = folder / "fake";
  second.saving.every = 1;
  Devices devices(fake, 1);
  absl::StatusOr<Outcome> resumed = Train(fake, devices.On(second));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->weights_hash, whole.weights_hash);

  TrainOptions third = SmallOptions(4);
  third.saving.resume = folder / "fake" / "step-00000003";
  absl::StatusOr<Outcome> back = Train(cpu, third);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->weights_hash, whole.weights_hash);
  EXPECT_EQ(back->eval_loss, whole.eval_loss);
}

TEST(DeviceRun, StateThatIsNotFiniteIsNotSaved) {
  const RunPlan plan = FakePlan({.ranks = 2});
  const fs::path folder = fs::path(testing::TempDir()) / "device_not_finite";
  fs::remove_all(folder);
  TrainOptions options = SmallOptions(1);
  options.training.optimizer.lr = 3e38;
  options.training.optimizer.weight_decay = 1e3;
  options.saving.directory = folder;
  Devices devices(plan, 2);
  const absl::Status status = Train(plan, devices.On(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("after step 1 the values of "));
  EXPECT_FALSE(fs::exists(folder));
}

TEST(DeviceRun, TimesOfActionsAreTheDevices) {
  const RunPlan plan = FakePlan({.ranks = 2});
  Devices devices(plan, 2, {.longest_pause = absl::Microseconds(100)});
  TrainOptions options = devices.On(SmallOptions(2));
  options.watching.trace = true;
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, {}, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<TraceEvent> ran;
  for (const TraceEvent& event : result->trace) {
    if (event.kind == TraceEvent::Kind::kAction && TakesTime(event.action.op)) ran.push_back(event);
  }
  size_t actions = 0;
  for (const RankProgram& program : plan.train) actions += program.actions.size();
  ASSERT_EQ(ran.size(), 2 * actions);
  for (size_t i = 0; i < ran.size(); ++i) {
    EXPECT_GT(ran[i].start, 0);
    EXPECT_GE(ran[i].end, ran[i].start);
    if (i == 0 || ran[i - 1].rank != ran[i].rank) continue;
    EXPECT_GE(ran[i].start, ran[i - 1].end);
  }
  const TraceFacts facts = ReadTrace(result->trace, plan);
  EXPECT_THAT(facts.defects, testing::IsEmpty());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(facts.most_held[static_cast<size_t>(rank)], PlannedPeak(plan, rank));
    EXPECT_EQ(facts.held[static_cast<size_t>(rank)], 0);
  }
}

TEST(DeviceRun, ALostDeviceEndsTheRun) {
  const RunPlan plan = FakePlan({.ranks = 3});
  Devices devices(plan, 3);
  TrainOptions options = devices.On(SmallOptions(1000));
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainEvents events;
  events.on_step = [&devices](const StepMetrics& metrics) {
    if (metrics.step == 2) devices.device(1).Lose(absl::UnavailableError("it fell off the bus"));
  };
  const absl::Status status = TrainInProcess(plan, data, options, events, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it fell off the bus"));
}

TEST(DeviceRun, ADeviceThatIsTooSmallSaysSo) {
  const RunPlan plan = FakePlan({.ranks = 2});
  for (const FakeDevice::Options& options :
       {FakeDevice::Options{.memory = plan.arenas.front().memory.total - 1},
        FakeDevice::Options{.events = 3}}) {
    Devices devices(plan, 2, options);
    const absl::Status status = Train(plan, devices.On(SmallOptions(1))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
}

// A bit that a device has wrong is found as a processor's is.
TEST(DeviceRun, AFlippedBitIsFoundAndItsRankNamed) {
  if (!kHasFailpoints) GTEST_SKIP() << "built without failpoints";
  const RunPlan plan = FakePlan({.ranks = 3, .micro_batches = 2, .audit_every = 1});
  for (const char* what : {"forward", "input", "gradient", "memory"}) {
    SCOPED_TRACE(what);
    Devices devices(plan, 3, {.longest_pause = absl::Microseconds(50)});
    ArmFault(Fault{
        .point = absl::StrCat("rank1-", what, ".flip"), .hit = 3, .kind = FaultKind::kVanish});
    const absl::Status status = Train(plan, devices.On(SmallOptions(10))).status();
    ArmFault(std::nullopt);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << DescribeError(status);
    EXPECT_EQ(WhereOf(status).rank, 1) << DescribeError(status);
  }
}

TEST(DeviceRun, AValueThatIsNotFiniteIsTracedToItsLayer) {
  RunRequest request = FakeRequest({.ranks = 3, .micro_batches = 4});
  // Writes a bad value when the stream gets there.
  const auto spoil = [calls = 0](const LayerCall& call) mutable {
    if (calls++ % 4 != 2) return;
    auto* values = static_cast<float*>(const_cast<void*>(call.input));
    FakeDevice::Queue(call.stream,
                      [values] { values[3] = std::numeric_limits<float>::quiet_NaN(); });
  };
  Haunt(
      &request, [](int index) { return index == 9; }, spoil);
  absl::StatusOr<RunPlan> plan = CompileRun(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Devices devices(*plan, 1);
  const absl::Status status = Train(*plan, devices.On(SmallOptions(2))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("step 1"), HasSubstr("layer 9"), HasSubstr("micro-batch 2"),
                             HasSubstr("the output of")));
}

}  // namespace
}  // namespace sluice
