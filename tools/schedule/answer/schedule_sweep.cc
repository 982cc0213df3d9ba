#include "tools/schedule/answer/schedule_sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/generators/catalogue.h"
#include "schedules/optimise/choose.h"
#include "schedules/optimise/optimise.h"
#include "tools/command.h"
#include "tools/schedule/timetable/schedule_auto.h"

namespace sluice {
namespace {

constexpr int kMostParts = 2;
// The approximate number of limits on the curve.
constexpr int kMostLimits = 20;
// The share of the work of one `auto` that each point gets.
constexpr double kEffort = 0.3;
constexpr double kRounding = 1e-9;

// From the memory of V-Min, a third of 1F1B's, to slightly more than that of ZB-2p, twice 1F1B's.
std::vector<int> LimitsFor(int ranks, int chunks) {
  const int least = std::max(1, ranks / 3) * chunks;
  const int most = (2 * ranks + 2) * chunks;
  const int step = std::max(1, (most - least + kMostLimits - 1) / kMostLimits);
  std::vector<int> limits;
  for (int limit = least; limit < most + step; limit += step) limits.push_back(limit);
  return limits;
}

std::string PlacementName(const Cut& cut) {
  const Placement& placement = cut.placement;
  const bool v = placement.chunks() > 1 && placement.rank(placement.ranks()) != 0;
  std::string name = v ? "v" : "looped";
  if (placement.chunks() > 1) absl::StrAppend(&name, ", ", placement.chunks(), " chunks");
  return name;
}

// Those that keep the limits of bytes: the curve has no others either.
void AddEntries(const std::vector<Cut>& cuts, int micro_batches, const std::vector<double>& bytes,
                TradeOffCurve* curve) {
  for (const CatalogueEntry& entry : Catalogue()) {
    for (const Cut& cut : cuts) {
      // An interleaved schedule with one stage per rank is the plain schedule under a longer name.
      if (entry.default_chunks > 1 && cut.placement.chunks() == 1) continue;
      const auto table = GenerateSchedule(entry.name, {.ranks = cut.placement.ranks(),
                                                       .micro_batches = micro_batches,
                                                       .chunks = cut.placement.chunks(),
                                                       .costs = &cut.costs});
      if (!table.ok() || table->updates != WeightUpdates::kFlush ||
          table->placement.copies() != 1 ||
          table->placement.rank_of_stage() != cut.placement.rank_of_stage()) {
        continue;
      }
      const auto run = Simulate(*table, cut.costs);
      if (!run.ok() || !KeepsLimits(*run, {.activations = {}, .bytes = bytes})) continue;
      const int peak =
          *std::max_element(run->peak_activations.begin(), run->peak_activations.end());
      curve->entries.push_back({entry.name, cut.placement.chunks(), cut.parts,
                                static_cast<double>(peak) / cut.parts, run->makespan, run->bubble});
    }
  }
  std::stable_sort(curve->entries.begin(), curve->entries.end(),
                   [](const auto& a, const auto& b) { return a.peak < b.peak; });
}

// An entry is on the curve at the first limit that holds it, if it is as good as the best timetable
// found.
void MarkEntries(TradeOffCurve* curve) {
  for (const auto& entry : curve->entries) {
    const auto point =
        std::find_if(curve->points.begin(), curve->points.end(),
                     [&](const auto& candidate) { return candidate.limit >= entry.peak; });
    if (point == curve->points.end()) continue;
    if (entry.makespan <= point->makespan * (1 + kRounding)) point->entries.push_back(entry.name);
  }
}

}  // namespace

absl::StatusOr<TradeOffCurve> SweepTradeOff(const ScheduleQuestion& asked) {
  absl::StatusOr<OptimiseRequest> request = AutoRequest(asked);
  if (!request.ok()) return request.status();
  request->effort = kEffort;
  const bool placed = asked.chunks.has_value() || !asked.placement.empty();
  const int ranks = request->placement.ranks();
  const std::vector<Cut> cuts = placed ? std::vector<Cut>{{1, request->placement, request->costs}}
                                       : CutsOf(ranks, request->costs, kMostParts);
  std::vector<int> limits = LimitsFor(ranks, request->placement.chunks());
  if (asked.memory_limit.has_value()) {
    std::erase_if(limits, [&](int limit) { return limit > *asked.memory_limit; });
    if (limits.empty()) limits = {*asked.memory_limit};
  }
  absl::StatusOr<std::vector<TradeOff>> found = SweepMemory(*request, cuts, limits);
  if (absl::IsResourceExhausted(found.status())) {
    return WithExitCode(found.status(), kExitNoPlan);
  }
  if (!found.ok()) return found.status();
  TradeOffCurve curve{
      .ranks = ranks, .micro_batches = request->micro_batches, .points = {}, .entries = {}};
  for (const TradeOff& point : *found) {
    curve.points.push_back({point.limit,
                            PlacementName(point.cut),
                            point.best.run.makespan,
                            point.best.run.bubble,
                            point.best.lower_bound,
                            point.best.gap,
                            {}});
  }
  AddEntries(cuts, request->micro_batches, request->limits.bytes, &curve);
  MarkEntries(&curve);
  return curve;
}

nlohmann::ordered_json TradeOffJson(const TradeOffCurve& curve) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const auto& point : curve.points) {
    points.push_back({{"memory_limit", point.limit},
                      {"placement", point.placement},
                      {"makespan", point.makespan},
                      {"bubble", point.bubble},
                      {"lower_bound", point.bound},
                      {"gap", point.gap},
                      {"entries", point.entries}});
  }
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const auto& entry : curve.entries) {
    entries.push_back({{"schedule", entry.name},
                       {"chunks", entry.chunks},
                       {"parts", entry.parts},
                       {"peak_activations", entry.peak},
                       {"makespan", entry.makespan},
                       {"bubble", entry.bubble}});
  }
  return {{"ranks", curve.ranks},
          {"micro_batches", curve.micro_batches},
          {"curve", std::move(points)},
          {"catalogue", std::move(entries)}};
}

}  // namespace sluice
