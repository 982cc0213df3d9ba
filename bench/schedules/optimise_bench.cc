// The time of `auto`, and how good its answer is: `gap` is proved, against the best bound. A fixed
// amount of work, without a time limit.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "schedules/optimise/optimise.h"

namespace sluice {
namespace {

void Optimise(benchmark::State& state, const OptimiseRequest& request) {
  double gap = 0;
  double value = 0;
  for (auto _ : state) {
    const auto best = OptimiseTimetable(request);
    if (!best.ok()) return state.SkipWithError("no timetable");
    gap = best->gap;
    value = ObjectiveValue(best->run, request.objective);
  }
  state.counters["gap_percent"] = 100 * gap;
  state.counters["value"] = value;
}

OptimiseRequest Request(const Placement& placement, int micro_batches, const StageCosts& costs,
                        int limit) {
  OptimiseRequest request;
  request.placement = placement;
  request.micro_batches = micro_batches;
  request.costs = costs;
  request.limits.activations.assign(placement.ranks(), limit);
  return request;
}

// Large: the size at which bench/peers/zb_heuristic.py is timed, with its costs.
void BM_Large(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  OptimiseRequest request = Request(Placement::Looped(ranks), static_cast<int>(state.range(1)),
                                    StageCosts::Uniform(ranks, 18522, 18086, 9337, 601), 2 * ranks);
  if (state.range(2) != 0) request.objective = Objective::kSpan;
  Optimise(state, request);
}
BENCHMARK(BM_Large)
    ->Args({8, 64, 0})
    ->Args({32, 256, 0})
    ->Args({64, 512, 0})
    ->Args({64, 512, 1})
    ->ArgNames({"p", "m", "span"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// V placement with the memory of V-Min (p chunks), V-Half (p + 2) and ZB-V (2 p).
void BM_VShaped(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  Optimise(state,
           Request(Placement::V(ranks, 2), 3 * ranks, StageCosts::Uniform(2 * ranks, 1, 1, 1),
                   static_cast<int>(state.range(1))));
}
BENCHMARK(BM_VShaped)
    ->Args({8, 8})
    ->Args({8, 10})
    ->Args({8, 16})
    ->Args({32, 32})
    ->Args({32, 34})
    ->Args({32, 64})
    ->ArgNames({"p", "limit"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Twenty small uneven cases, solved to proven optimality; limits from 1 activation up.
void BM_SmallUneven(benchmark::State& state) {
  const int limit = static_cast<int>(state.range(0));
  double proved = 0;
  for (auto _ : state) {
    std::mt19937_64 random(17);
    const auto draw = [&](int low, int high) {
      return static_cast<double>(std::uniform_int_distribution<int>(low, high)(random));
    };
    proved = 0;
    for (int round = 0; round < 20; ++round) {
      const int ranks = 2 + round % 3;
      StageCosts costs = StageCosts::Uniform(ranks, 1, 1, 1);
      for (int s = 0; s < ranks; ++s) {
        costs.forward[s] = draw(5, 15);
        costs.input_grad[s] = draw(5, 15);
        costs.weight_grad[s] = draw(3, 15);
        costs.backward[s] = costs.input_grad[s] + costs.weight_grad[s];
        if (s + 1 < ranks) costs.send[s] = draw(0, 3);
      }
      const auto best =
          OptimiseTimetable(Request(Placement::Looped(ranks), 3 + round % 6, costs, limit));
      proved += best.ok() && best->optimal ? 1 : 0;
    }
  }
  state.counters["proved_of_20"] = proved;
}
BENCHMARK(BM_SmallUneven)
    ->DenseRange(1, 6)
    ->ArgName("limit")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace sluice
