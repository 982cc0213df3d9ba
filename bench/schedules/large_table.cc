// One very large table, once through everything: `large_table [ranks micro_batches chunks [name]]`.
// Prints, for each step, its time, nanoseconds per action, and the peak of the memory so far.
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

double PeakGibibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kKibibytesInGibibyte = 1 << 20;
  return static_cast<double>(usage.ru_maxrss) / kKibibytesInGibibyte;
}

// Runs `step`, which returns the number of actions that it has processed.
template <typename Step>
double Time(const char* name, Step step) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t actions = step();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  constexpr double kNanoseconds = 1e9;
  std::printf("%-22s %11ld actions %8.2f s %7.1f ns an action %6.2f GiB\n", name,
              static_cast<long>(actions), took.count(),
              took.count() * kNanoseconds / static_cast<double>(actions), PeakGibibytes());
  return took.count();
}

int Run(const std::string& name, const ScheduleRequest& request) {
  absl::StatusOr<Timetable> table;
  double total = Time("generate and validate", [&] {
    table = GenerateSchedule(name, request);
    return table.ok() ? table->action_count() : 1;
  });
  if (!table.ok()) {
    std::fprintf(stderr, "%s\n", std::string(table.status().message()).c_str());
    return EXIT_FAILURE;
  }
  absl::StatusOr<Timetable> lowered;
  total += Time("validate and lower", [&] {
    lowered = LowerTimetable(*table);
    return table->action_count();
  });
  const int64_t computed = table->action_count();
  table = Timetable{};  // a table to run needs its messages only
  bool sound = false;
  total += Time("validate lowered", [&] {
    sound = FindDefects(*lowered).empty();
    return lowered->action_count();
  });
  double makespan = 0;
  total += Time("simulate lowered", [&] {
    const StageCosts costs = StageCosts::Uniform(lowered->placement.stages(), 1, 1, 1, 0.125);
    makespan = Simulate(*lowered, costs, Detail::kSummary)->makespan;
    return lowered->action_count();
  });
  std::printf("%s, %ld compute actions: %s, makespan %.3f, %.2f s in all\n", name.c_str(),
              static_cast<long>(computed), sound ? "sound" : "NOT SOUND", makespan, total);
  return sound ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  return sluice::Run(
      argc > 4 ? argv[4] : "interleaved-zb",
      {.ranks = number(1, 32), .micro_batches = number(2, 512), .chunks = number(3, 4)});
}
