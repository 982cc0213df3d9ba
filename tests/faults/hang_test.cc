// A rank that hangs is named with its place and its stack, wherever it hangs, and all ranks are
// told.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "comm/watched_communicator.h"
#include "comm/where.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/watch/watchdog.h"
#include "tests/comm/forwarding_communicator.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {

// Catches the first thread that comes, and holds it until it is released.
class Trap {
 public:
  [[gnu::noinline]] void Hang() {
    if (caught_.exchange(true)) return;
    while (!released_.load()) absl::SleepFor(absl::Milliseconds(1));
  }
  void Release() { released_.store(true); }

 private:
  std::atomic<bool> caught_{false};
  std::atomic<bool> released_{false};
};

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

// No healthy rank of a small run takes so long for anything, even on a loaded machine. Under a
// sanitizer a thread that saves may.
constexpr absl::Duration kTimeout = absl::Seconds(kSanitized ? 6 : 2);

std::atomic<Trap*> disk_trap{nullptr};  // for who flushes files

// One layer's function hangs at one of its calls.
class HangingLayer : public Layer {
 public:
  enum class In : uint8_t { kPack, kForward, kBackwardInput };
  struct Place {
    int layer = 0;
    In in = In::kForward;
    int call = 0;
  };

  HangingLayer(std::unique_ptr<Layer> layer, const Place& place, Trap* trap)
      : layer_(std::move(layer)), place_(place), trap_(*trap) {
    decl_ = layer_->decl();
  }
  void Pack(const LayerCall& call) override {
    Come(In::kPack);
    layer_->Pack(call);
  }
  void Forward(const LayerCall& call) override {
    Come(In::kForward);
    layer_->Forward(call);
  }
  void Restore(const LayerCall& call) override { layer_->Restore(call); }
  void BackwardInput(const LayerCall& call) override {
    Come(In::kBackwardInput);
    layer_->BackwardInput(call);
  }
  void BackwardWeight(const LayerCall& call) override { layer_->BackwardWeight(call); }

 private:
  void Come(In in) {
    if (in == place_.in && calls_++ == place_.call) trap_.Hang();
  }

  std::unique_ptr<Layer> layer_;
  const Place place_;
  Trap& trap_;
  int calls_ = 0;
};

RunRequest RequestWith(const HangingLayer::Place& place, Trap* trap) {
  RunRequest request = MakeRequest({.ranks = 2, .micro_batches = 4});
  request.make_layer = [spec = request.spec, batch = request.batch, dtype = request.dtype,
                        kernels = request.kernels, place,
                        trap](int index) -> absl::StatusOr<std::unique_ptr<Layer>> {
    absl::StatusOr<std::unique_ptr<Layer>> layer = MakeLayer(spec, index, batch, dtype, *kernels);
    if (!layer.ok() || index != place.layer) return layer;
    return std::make_unique<HangingLayer>(*std::move(layer), place, trap);
  };
  return request;
}

// Reading the input of one micro-batch hangs.
class HangingData : public HashedData {
 public:
  HangingData(const RunPlan& plan, int64_t micro_batch, Trap* trap)
      : HashedData(plan.request.spec, plan.request.batch.seq),
        micro_batch_(micro_batch),
        trap_(*trap) {}
  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override {
    if (split == Split::kTrain && index == micro_batch_ && out.input != nullptr) trap_.Hang();
    HashedData::Fill(split, index, size, dtype, out);
  }

 private:
  const int64_t micro_batch_;
  Trap& trap_;
};

// Waiting for a message hangs, whatever the deadline: the second wait of a rank, which is for the
// second micro-batch.
class HangingMessages : public ForwardingCommunicator {
 public:
  HangingMessages(Communicator* world, Trap* trap) : ForwardingCommunicator(world), trap_(*trap) {}
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    if (waits_++ == 1) trap_.Hang();
    return inner().WaitReceive(from, ticket, deadline);
  }

 private:
  Trap& trap_;
  int waits_ = 0;
};

// What the watchdog has told of a run in which a thread was caught, and how the run ended once the
// thread was let go: that all ranks have returned shows that all others had been told.
struct Ending {
  std::vector<Hang> hangs;
  absl::Status status;

  std::string text() const { return hangs.empty() ? "nothing" : DescribeError(hangs[0].status); }
};

TrainOptions OptionsFor(Trap* trap, Ending* ending) {
  TrainOptions options = SmallOptions(5);
  options.watching.timeout = kTimeout;
  options.watching.on_hang = [trap, ending](const Hang& hang) {
    ending->hangs.push_back(hang);
    trap->Release();
  };
  return options;
}

Ending TrainWith(const RunRequest& request, Trap* trap) {
  Ending ending;
  absl::StatusOr<RunPlan> plan = CompileRun(request);
  if (!plan.ok()) return {.hangs = {}, .status = plan.status()};
  const HashedData data(request.spec, request.batch.seq);
  ending.status = TrainInProcess(*plan, data, OptionsFor(trap, &ending), {}, nullptr).status();
  return ending;
}

void ExpectHang(const Ending& ending, int rank, const std::string& place,
                const std::string& caller) {
  ASSERT_EQ(ending.hangs.size(), 1U) << ending.status;
  EXPECT_EQ(ending.hangs[0].rank, rank);
  EXPECT_EQ(ending.hangs[0].status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(ending.text(),
              AllOf(HasSubstr(place), HasSubstr("sluice::Trap::Hang()"), HasSubstr(caller)));
  EXPECT_EQ(ending.status.code(), absl::StatusCode::kDeadlineExceeded) << ending.status;
}

TEST(Hang, WhileDataAreRead) {
  Trap trap;
  Ending ending;
  const RunPlan plan = MakePlan({.ranks = 2, .micro_batches = 4});
  const HangingData data(plan, /*micro_batch=*/4 + 2, &trap);  // of step 2
  ending.status = TrainInProcess(plan, data, OptionsFor(&trap, &ending), {}, nullptr).status();
  ExpectHang(ending, 0, "rank 0, stage 0, micro-batch 2, action 0F2: hangs", "HangingData::Fill()");
}

TEST(Hang, InAForwardKernel) {
  Trap trap;
  const int last = static_cast<int>(MakePlan({.ranks = 2}).layers.size()) - 1;
  const Ending ending = TrainWith(RequestWith({last, HangingLayer::In::kForward, 1}, &trap), &trap);
  ExpectHang(ending, 1, "rank 1, stage 1, micro-batch 1, action 1F1: hangs",
             "HangingLayer::Forward()");
}

TEST(Hang, InABackwardKernel) {
  Trap trap;
  const Ending ending =
      TrainWith(RequestWith({1, HangingLayer::In::kBackwardInput, 3}, &trap), &trap);
  ExpectHang(ending, 0, "rank 0, stage 0, micro-batch 3, action 0B3: hangs",
             "HangingLayer::BackwardInput()");
}

// Reading weights may take any time; rank 1 is named because rank 0 waits for it in vain.
TEST(Hang, BeforeTheFirstStep) {
  Trap trap;
  const int last = static_cast<int>(MakePlan({.ranks = 2}).layers.size()) - 1;
  const Ending ending = TrainWith(RequestWith({last, HangingLayer::In::kPack, 0}, &trap), &trap);
  ExpectHang(ending, 1, "rank 1: hangs while it reads its weights", "HangingLayer::Pack()");
  EXPECT_TRUE(ending.hangs[0].after_failure);
  EXPECT_THAT(ending.text(), HasSubstr("before, the run failed: "));
}

TEST(Hang, InAMessage) {
  Trap trap;
  Ending ending;
  const RunPlan plan = MakePlan({.ranks = 2, .micro_batches = 4});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  const TrainOptions watched = OptionsFor(&trap, &ending);
  InProcessGroup group(2, EdgeCapacity(plan));
  ending.status = RunRanks(group, 2, {.pin = false}, [&](int rank, Communicator& world) {
    HangingMessages messages(&world, &trap);
    if (rank == 1) return TrainRank(plan, data, watched, {}, nullptr, messages).status();
    TrainOptions options = watched;
    options.watching.on_hang = nullptr;
    return TrainRank(plan, data, options, {}, nullptr, world).status();
  });
  ExpectHang(ending, 1, "rank 1, stage 1, micro-batch 1, action 1F1: hangs",
             "HangingMessages::WaitReceive()");
}

TEST(Hang, InTheThreadThatSaves) {
  Trap trap;
  Ending ending;
  const TempFolder folder;
  const RunPlan plan = MakePlan({.ranks = 2, .micro_batches = 4});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainOptions options = OptionsFor(&trap, &ending);
  options.saving.directory = folder / "run";
  options.saving.every = 2;
  disk_trap.store(&trap);
  ending.status = TrainInProcess(plan, data, options, {}, nullptr).status();
  disk_trap.store(nullptr);
  ASSERT_EQ(ending.hangs.size(), 1U) << ending.status;
  ExpectHang(ending, ending.hangs[0].rank, "hangs while it writes a checkpoint to the disk",
             "SharedFile::Sync()");
}

TEST(Hang, BetweenSteps) {
  Trap trap;
  Ending ending;
  const RunPlan plan = MakePlan({.ranks = 2, .micro_batches = 4});
  const HashedData data(plan.request.spec, plan.request.batch.seq);
  TrainEvents events;
  events.on_step = [&trap](const StepMetrics& metrics) {
    if (metrics.step == 2) trap.Hang();
  };
  ending.status = TrainInProcess(plan, data, OptionsFor(&trap, &ending), events, nullptr).status();
  ExpectHang(ending, 0, "rank 0: hangs while it reports a step", "RankTrainer::AfterStep()");
}

TEST(Hang, NobodyIsNamedInAHealthyRun) {
  Trap trap;
  Ending ending;
  const TempFolder folder;
  for (const int replicas : {1, 2}) {
    const RunPlan plan = MakePlan({.ranks = 2, .micro_batches = 4, .replicas = replicas});
    const HashedData data(plan.request.spec, plan.request.batch.seq);
    TrainOptions options = OptionsFor(&trap, &ending);
    options.watching.eval_every = 2;
    options.saving.directory = folder / std::to_string(replicas);
    options.saving.every = 2;
    EXPECT_EQ(TrainInProcess(plan, data, options, {}, nullptr).status(), absl::OkStatus());
  }
  EXPECT_THAT(ending.hangs, IsEmpty());
}

// Threads that have not got on for longer than the one that is named, and do not hang.
TEST(Watchdog, PassesOverWhoWaitsOrPrepares) {
  constexpr absl::Duration kShort = absl::Milliseconds(300);
  InProcessGroup group(1);
  std::promise<void> told;
  std::vector<Hang> hangs;
  Watchdog watchdog(kShort, &group.communicator(0), [&](const Hang& hang) {
    hangs.push_back(hang);
    told.set_value();
  });
  const auto where = [](int rank) { return [rank] { return Where{.rank = rank}; }; };
  Progress prepares(&watchdog.board(), 0, where(0));
  Progress waits_for_a_rank(&watchdog.board(), 1, where(1));
  Progress waits_for_its_saver(&watchdog.board(), 2, where(2));
  Progress hangs_indeed(&watchdog.board(), 3, where(3));
  const Progress::Waiting message(&waits_for_a_rank, Instant::Now() + absl::Hours(1));
  const Progress::Waiting saver(&waits_for_its_saver, Instant::InfiniteFuture());
  for (Progress* thread : {&waits_for_a_rank, &waits_for_its_saver}) thread->Begin();
  // It is seen later than the others.
  const Instant until = Instant::Now() + kShort;
  while (Instant::Now() < until) absl::SleepFor(absl::Milliseconds(10));
  hangs_indeed.Begin();
  {
    const Progress::Phase phase(&hangs_indeed, "dreams");
    told.get_future().wait();
  }
  EXPECT_THAT(hangs, ElementsAre(Field(&Hang::rank, 3)));
  EXPECT_THAT(DescribeError(hangs[0].status),
              HasSubstr("rank 3: hangs while it dreams; it has not"));
  EXPECT_EQ(group.communicator(0).failure(), hangs[0].status);
}

// A rank that comes late to a wait whose deadline has passed leaves it at once. One that stays there hangs.
TEST(Watchdog, PassesOverWaitsThatBeginAfterTheirDeadline) {
  InProcessGroup group(1);
  std::promise<void> told;
  std::atomic<int> named = 0;
  std::string text;
  Watchdog watchdog(absl::Hours(1), &group.communicator(0), [&](const Hang& hang) {
    text = DescribeError(hang.status);
    ++named;
    told.set_value();
  });
  Progress late(&watchdog.board(), 0, [] { return Where{.rank = 0}; });
  late.Begin();
  const Instant past = Instant::Now() - absl::Hours(1);
  // Nothing is said of a machine that stands still for as long as a hang lasts.
  absl::Duration longest;
  const Instant until = Instant::Now() + absl::Seconds(1);
  for (Instant before = Instant::Now(); before < until;) {
    const Progress::Waiting waiting(&late, past);
    absl::SleepFor(absl::Milliseconds(5));
    const Instant now = Instant::Now();
    longest = std::max(longest, now - std::exchange(before, now));
  }
  EXPECT_TRUE(named == 0 || longest > absl::Milliseconds(400)) << longest;
  const Progress::Waiting waiting(&late, past);
  told.get_future().wait();
  EXPECT_THAT(text, HasSubstr("rank 0: hangs, in a wait whose deadline has passed; it has not"));
}

// After a wait has missed its deadline, the rank whose thread has not noticed is named, not one
// that has and takes its time to end.
TEST(Watchdog, NamesWhoWasWaitedForAfterATimeOut) {
  InProcessGroup group(2);
  std::promise<void> told;
  std::vector<Hang> hangs;
  Watchdog watchdog(absl::Hours(1), &group.communicator(0), [&](const Hang& hang) {
    hangs.push_back(hang);
    told.set_value();
  });
  const auto where = [](int rank) { return [rank] { return Where{.rank = rank}; }; };
  Progress ends_slowly(&watchdog.board(), 0, where(0));
  Progress was_waited_for(&watchdog.board(), 1, where(1));
  WatchedCommunicator world(&group.communicator(0), &ends_slowly);
  const absl::Status late = world.Barrier(Instant::Now());
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  world.Abort(late);
  told.get_future().wait();
  EXPECT_THAT(hangs, ElementsAre(AllOf(Field(&Hang::rank, 1), Field(&Hang::after_failure, true))));
}

}  // namespace
}  // namespace sluice

extern "C" int sync_file_range(int file, off64_t offset, off64_t bytes, unsigned flags) {
  if (sluice::Trap* const trap = sluice::disk_trap.load(); trap != nullptr) trap->Hang();
  return static_cast<int>(syscall(SYS_sync_file_range, file, offset, bytes, flags));
}
