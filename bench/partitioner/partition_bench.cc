// The time of the exact partition, and how much of it is proved within the default budget ("gap" is
// relative).
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "partitioner/partition_problem.h"
#include "partitioner/search/exact_partition.h"
#include "partitioner/search/partition_answer.h"
#include "schedules/generators/catalogue.h"

namespace sluice {
namespace {

constexpr uint64_t kSeed = 1;

LayerCost MakeLayer(double forward, double scale) {
  LayerCost layer;
  layer.name = "layer";
  layer.forward_seconds = forward * scale;
  layer.input_grad_seconds = layer.weight_grad_seconds = forward * scale;
  layer.restore_seconds = 0.2 * forward * scale;
  layer.parameter_bytes = 160;
  layer.saved_bytes = {340, 120, 20};
  layer.weight_grad_bytes = 200;
  layer.output_bytes = 20;
  layer.workspace_bytes = 40;
  return layer;
}

// Every layer has its own cost, up to 3 times that of another.
std::vector<LayerCost> UnevenLayers(int count) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> scale(0.5, 1.5);
  std::vector<LayerCost> layers;
  layers.reserve(count);
  for (int i = 0; i < count; ++i) layers.push_back(MakeLayer(1e-3, scale(random)));
  return layers;
}

// A transformer: equal blocks, a light embedding, a heavy head.
std::vector<LayerCost> TransformerLayers(int count) {
  std::vector<LayerCost> layers(count, MakeLayer(1e-3, 1));
  layers.front() = MakeLayer(1e-3, 0.1);
  layers.back() = MakeLayer(1e-3, 1.7);
  return layers;
}

void Partition(benchmark::State& state, const std::vector<LayerCost>& layers, const char* schedule,
               int64_t memory) {
  const int ranks = static_cast<int>(state.range(1));
  const Timetable timetable =
      *GenerateSchedule(schedule, {.ranks = ranks, .micro_batches = 2 * ranks});
  PartitionProblem problem;
  problem.machines.costs = *CostTable::CreateShared(layers);
  problem.timetable = &timetable;
  problem.machines.link = {5e-6, 1e6};
  if (memory > 0) {
    problem.machines.memory_limit = memory;
    problem.policies = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  }
  double gap = 0;
  bool optimal = false;
  for (auto _ : state) {
    const absl::StatusOr<PartitionAnswer> answer = FindExactPartition(problem);
    if (!answer.ok()) {
      state.SkipWithError(std::string(answer.status().message()).c_str());
      break;
    }
    gap = answer->gap();
    optimal = answer->optimal;
    state.counters["steps"] = static_cast<double>(answer->steps);
  }
  state.counters["gap"] = gap;
  state.counters["optimal"] = optimal;
}

void Uneven(benchmark::State& state) {
  Partition(state, UnevenLayers(static_cast<int>(state.range(0))), "1f1b", 0);
}
void UnevenZeroBubble(benchmark::State& state) {
  Partition(state, UnevenLayers(static_cast<int>(state.range(0))), "zb-h1", 0);
}
void Transformer(benchmark::State& state) {
  Partition(state, TransformerLayers(static_cast<int>(state.range(0))), "1f1b", 0);
}
// Memory for about 60 % of what the first rank would save, so that stages choose what to recompute.
void TransformerTight(benchmark::State& state) {
  const int64_t layers_a_rank = state.range(0) / state.range(1) + 1;
  Partition(state, TransformerLayers(static_cast<int>(state.range(0))), "1f1b",
            layers_a_rank * (160 + 200 * state.range(1)) + 600);
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({14, 4})->Args({26, 8})->Args({50, 8})->Args({98, 16})->Args({200, 64});
  bench->Unit(benchmark::kMillisecond)->MinTime(0.1);
}
BENCHMARK(Uneven)->Apply(Sizes);
BENCHMARK(UnevenZeroBubble)->Apply(Sizes);
BENCHMARK(Transformer)->Apply(Sizes);
BENCHMARK(TransformerTight)->Apply(Sizes);

}  // namespace
}  // namespace sluice
