// print_schedule [NAME [RANKS [MICRO_BATCHES]]]: a published schedule as a picture, and what it costs.
#include <sluice/schedules/generators/catalogue.h>
#include <sluice/schedules/render/render.h>
#include <sluice/schedules/simulate/simulate.h>
#include <sluice/version.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "zb-h1";
  sluice::ScheduleRequest request;
  request.ranks = argc > 2 ? std::atoi(argv[2]) : 4;
  request.micro_batches = argc > 3 ? std::atoi(argv[3]) : 8;
  const auto entry = sluice::FindSchedule(name);
  if (entry.ok()) request.chunks = (*entry)->default_chunks;

  // The table says who computes what in which order, and has been proved free of deadlock.
  const auto table = sluice::GenerateSchedule(name, request);
  if (!table.ok()) {
    std::cerr << table.status().message() << "\n";
    return 2;
  }
  // What each stage's forward, input gradient and weight gradient take, in any one unit.
  const auto costs = sluice::StageCosts::Uniform(table->placement.stages(), 1, 1, 1);
  const auto run = sluice::Simulate(*table, costs);
  if (!run.ok()) {
    std::cerr << run.status().message() << "\n";
    return 2;
  }
  std::cout << sluice::RenderText(*run, *table, {.columns = 80});
  std::printf("%s of sluice %s: makespan %g, no order takes less than %g, bubble %.1f %%\n",
              name.c_str(), SLUICE_VERSION, run->makespan, run->lower_bound, 100 * run->bubble);
  return 0;
}
