// The cost of the executor itself: programs whose layers do nothing, so that only reading
// instructions, the clock, and messages of four bytes are measured.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "pipeline/compile/compile_run.h"
#include "pipeline/run/executor.h"
#include "pipeline/run/rank_threads.h"
#include "schedules/generators/catalogue.h"

namespace sluice {
namespace {

class EmptyLayer : public Layer {
 public:
  EmptyLayer(int index, int count) {
    decl_.name = "empty";
    decl_.input_shape = {1};
    if (index + 1 < count) decl_.output_shape = {1};
    decl_.has_input_grad = index > 0;
  }
  void Pack(const LayerCall&) override {}
  void Forward(const LayerCall&) override {}
  void Restore(const LayerCall&) override {}
  void BackwardInput(const LayerCall&) override {}
  void BackwardWeight(const LayerCall&) override {}
};

class NoData : public Dataset {
 public:
  std::string description() const override { return "nothing"; }
  int64_t samples(Split) const override { return 1; }
  int classes() const override { return 1; }
  int64_t input_size() const override { return 1; }
  DType input_dtype() const override { return DType::kInt32; }
  void Fill(Split, int64_t, int64_t, DType, const SampleBuffers&) const override {}
};

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

RunPlan MakePlan(const char* schedule, int ranks, int chunks, int micro_batches) {
  RunRequest request;
  const int stages = ranks * chunks;
  request.spec = {.name = "empty", .config = DecoderConfig{.layers = stages > 2 ? stages - 2 : 1}};
  const int layers = request.spec.layer_count();
  request.batch = {.size = 1, .seq = 1};
  request.timetable = OrDie(GenerateSchedule(
      schedule, {.ranks = ranks, .micro_batches = micro_batches, .chunks = chunks}));
  request.partition = OrDie(EvenPartition(layers, stages));
  request.recompute.assign(static_cast<size_t>(stages), Recompute::kNone);
  request.make_layer = [layers](int index) -> absl::StatusOr<std::unique_ptr<Layer>> {
    return std::make_unique<EmptyLayer>(index, layers);
  };
  return OrDie(CompileRun(request));
}

void Execute(benchmark::State& state, const char* schedule, int ranks, int chunks) {
  constexpr int kMicroBatches = 64;
  constexpr int kPasses = 100;
  const RunPlan plan = MakePlan(schedule, ranks, chunks, kMicroBatches);
  InProcessGroup group(ranks, static_cast<size_t>(plan.max_messages) + 1, absl::Microseconds(100));
  const NoData data;
  for (auto _ : state) {
    const absl::Status status =
        RunRanks(group, ranks, {}, [&](int rank, Communicator& communicator) -> absl::Status {
          const auto index = static_cast<size_t>(rank);
          absl::StatusOr<std::unique_ptr<RankState>> rank_state = RankState::Create(plan, rank);
          if (!rank_state.ok()) return rank_state.status();
          Executor executor(rank_state->get(), plan.train[index], plan.arenas[index].train,
                            &communicator, &data);
          if (absl::Status met = communicator.Barrier(Instant::InfiniteFuture()); !met.ok())
            return met;
          const auto start = std::chrono::steady_clock::now();
          for (int pass = 0; pass < kPasses; ++pass) {
            if (absl::Status ran = executor.Run({}); !ran.ok()) return ran;
          }
          if (absl::Status met = communicator.Barrier(Instant::InfiniteFuture()); !met.ok())
            return met;
          if (rank == 0) {
            state.SetIterationTime(
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                kPasses);
          }
          return absl::OkStatus();
        });
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  }
  // The time that a rank spends per action.
  const auto actions = static_cast<double>(plan.train.front().actions.size());
  state.counters["per_action"] = benchmark::Counter(
      actions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(Execute, one_rank, "1f1b", 1, 1)->UseManualTime()->Iterations(20);
BENCHMARK_CAPTURE(Execute, two_ranks_1f1b, "1f1b", 2, 1)->UseManualTime()->Iterations(20);
BENCHMARK_CAPTURE(Execute, two_ranks_gpipe, "gpipe", 2, 1)->UseManualTime()->Iterations(20);
BENCHMARK_CAPTURE(Execute, two_ranks_interleaved_v3, "interleaved", 2, 3)
    ->UseManualTime()
    ->Iterations(20);

}  // namespace
}  // namespace sluice
