// A schedule of one's own, which sluice then knows as it knows the published ones: it is generated,
// proved, simulated and drawn by its name. In a program that links sluice::runtime, the search for
// the best timetable, the planner and the trainer take it into account too.
#include <sluice/schedules/generators/catalogue.h>
#include <sluice/schedules/generators/generators.h>
#include <sluice/schedules/render/render.h>
#include <sluice/schedules/simulate/simulate.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace {

constexpr int kBlock = 4;  // micro-batches

// GPipe in blocks: every rank runs the forwards of four micro-batches, then their backwards. It
// keeps no more than four micro-batches, and pays with a bubble for each block.
absl::StatusOr<sluice::Timetable> GenerateBlocks(const sluice::ScheduleRequest& request) {
  if (auto ok = sluice::RequireChunks("blocks", 1, request); !ok.ok()) return ok;
  auto table = sluice::EmptyTimetable("blocks", request, sluice::Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    for (int first = 0; first < request.micro_batches; first += kBlock) {
      const int end = std::min(first + kBlock, request.micro_batches);
      for (const auto op : {sluice::Op::kForward, sluice::Op::kBackward}) {
        for (int m = first; m < end; ++m) {
          table.rows[rank].push_back(sluice::ComputeAction(op, /*stage=*/rank, m));
        }
      }
    }
  }
  return table;
}

}  // namespace

int main() {
  const absl::Status known = sluice::RegisterSchedule({.name = "blocks",
                                                       .summary = "GPipe, four by four",
                                                       .needs = "v = 1",
                                                       .bubble = "(p-1)/(p+3), m a multiple of 4",
                                                       .memory = "min(m, 4)",
                                                       .source = "examples/custom_schedule.cc",
                                                       .splits_backward = false,
                                                       .default_chunks = 1,
                                                       .generate = GenerateBlocks});
  if (!known.ok()) {
    std::cerr << known.message() << "\n";
    return 2;
  }
  for (const char* name : {"gpipe", "blocks", "1f1b"}) {
    const auto table = sluice::GenerateSchedule(name, {.ranks = 4, .micro_batches = 8});
    if (!table.ok()) {
      std::cerr << table.status().message() << "\n";
      return 4;
    }
    const auto run = sluice::Simulate(*table, sluice::StageCosts::Uniform(4, 1, 1, 1));
    std::cout << sluice::RenderText(*run, *table, {.columns = 80});
    const auto& peaks = run->peak_activations;
    std::printf("%s: bubble %.1f %%, at most %d activations on a rank\n\n", name, 100 * run->bubble,
                *std::max_element(peaks.begin(), peaks.end()));
  }
  return 0;
}
