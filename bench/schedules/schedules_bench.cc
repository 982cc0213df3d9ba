// The time for a timetable of 196,608 compute actions (interleaved zero bubble, 32 ranks, 512
// micro-batches, 4 chunks), and how it grows: every part should be linear in the actions.
#include <benchmark/benchmark.h>

#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/render/render_html.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

ScheduleRequest Request(const benchmark::State& state) {
  return {.ranks = 32, .micro_batches = static_cast<int>(state.range(0)), .chunks = 4};
}

Timetable Table(const benchmark::State& state) {
  return *GenerateSchedule("interleaved-zb", Request(state));
}

StageCosts Costs(const Timetable& table) {
  return StageCosts::Uniform(table.placement.stages(), 1, 1, 1, 0.1);
}

void CountActions(benchmark::State& state, const Timetable& table) {
  // The number of compute actions, without the other actions of the table.
  const double actions = 3.0 * table.placement.stages() * table.micro_batches;
  state.counters["actions"] = actions;
  state.counters["per action"] = benchmark::Counter(
      actions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Generating also proves that the table is sound.
void BM_GenerateAndValidate(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Table(state));
  CountActions(state, Table(state));
}

void BM_Validate(benchmark::State& state) {
  const Timetable table = Table(state);
  for (auto _ : state) benchmark::DoNotOptimize(FindDefects(table));
  CountActions(state, table);
}

void BM_ValidateLowered(benchmark::State& state) {
  const Timetable table = *LowerTimetable(Table(state));
  for (auto _ : state) benchmark::DoNotOptimize(FindDefects(table));
  CountActions(state, table);
}

void BM_Lower(benchmark::State& state) {
  const Timetable table = Table(state);
  for (auto _ : state) benchmark::DoNotOptimize(LowerTimetable(table));
  CountActions(state, table);
}

void BM_Simulate(benchmark::State& state) {
  const Timetable table = Table(state);
  const StageCosts costs = Costs(table);
  for (auto _ : state) benchmark::DoNotOptimize(Simulate(table, costs));
  CountActions(state, table);
}

// The same as PyTorch's constructor of the schedule does; see bench/peers/torch_schedules.py.
void BM_GenerateAndLower(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(LowerTimetable(Table(state)));
  CountActions(state, Table(state));
}

// All steps, and a proof that the lowered table is sound.
void BM_All(benchmark::State& state) {
  for (auto _ : state) {
    const Timetable lowered = *LowerTimetable(Table(state));
    if (!FindDefects(lowered).empty()) state.SkipWithError("not sound");
    benchmark::DoNotOptimize(Simulate(lowered, Costs(lowered)));
  }
  CountActions(state, Table(state));
}

void BM_CsvRoundTrip(benchmark::State& state) {
  const Timetable table = Table(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(ParseTimetableCsv(FormatTimetableCsv(table), "bench"));
  CountActions(state, table);
}

// At m = 4096 a million actions; `bytes` is the size of the page.
void BM_RenderHtml(benchmark::State& state) {
  const Timetable table = Table(state);
  const Simulation run = *Simulate(table, Costs(table));
  HtmlPanel panel;
  panel.table = &table;
  panel.run = &run;
  size_t bytes = 0;
  for (auto _ : state) bytes = RenderHtml({panel}).size();
  state.counters["bytes"] = static_cast<double>(bytes);
  CountActions(state, table);
}

void Sizes(benchmark::internal::Benchmark* bench) {
  for (int micro_batches : {64, 512, 4096}) bench->Arg(micro_batches);
  bench->ArgName("m")->Unit(benchmark::kMillisecond);
}

BENCHMARK(BM_GenerateAndValidate)->Apply(Sizes);
BENCHMARK(BM_Validate)->Apply(Sizes);
BENCHMARK(BM_ValidateLowered)->Apply(Sizes);
BENCHMARK(BM_Lower)->Apply(Sizes);
BENCHMARK(BM_Simulate)->Apply(Sizes);
BENCHMARK(BM_GenerateAndLower)->Apply(Sizes);
BENCHMARK(BM_All)->Apply(Sizes);
BENCHMARK(BM_CsvRoundTrip)->Apply(Sizes);
BENCHMARK(BM_RenderHtml)->Apply(Sizes);

}  // namespace
}  // namespace sluice
