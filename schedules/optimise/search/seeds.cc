#include "schedules/optimise/search/seeds.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "schedules/generators/catalogue.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice::optimise {

bool SamePlacement(const Placement& a, const Placement& b) {
  return a.copies() == b.copies() && a.rank_of_stage() == b.rank_of_stage();
}

std::vector<Timetable> CatalogueSeeds(const OptimiseRequest& request) {
  ScheduleRequest asked{.ranks = request.placement.ranks(),
                        .micro_batches = request.micro_batches,
                        .chunks = request.placement.chunks(),
                        .costs = &request.costs};
  const std::vector<int>& limits = request.limits.activations;
  if (!limits.empty()) asked.memory_limit = *std::min_element(limits.begin(), limits.end());
  const absl::Span<const CatalogueEntry> catalogue = Catalogue();
  std::vector<std::optional<Timetable>> found(catalogue.size());
  ParallelFor(catalogue.size(), [&](size_t i) {
    if (catalogue[i].updates != WeightUpdates::kFlush) return;
    absl::StatusOr<Timetable> table = GenerateSchedule(catalogue[i].name, asked);
    if (!table.ok() || !SamePlacement(table->placement, request.placement)) return;
    found[i] = *std::move(table);
  });
  std::vector<Timetable> seeds;
  for (auto& table : found) {
    if (table.has_value()) seeds.push_back(*std::move(table));
  }
  return seeds;
}

}  // namespace sluice::optimise
