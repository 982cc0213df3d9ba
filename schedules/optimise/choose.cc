#include "schedules/optimise/choose.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "schedules/optimise/optimise.h"
#include "schedules/optimise/parallel_for.h"
#include "schedules/simulate/bound.h"

namespace sluice {
namespace {

std::vector<double> Divide(const std::vector<double>& values, int parts) {
  std::vector<double> divided;
  for (double value : values) divided.insert(divided.end(), parts, value / parts);
  return divided;
}

std::vector<double> SplitEdges(const std::vector<double>& edges, size_t stages, int parts) {
  if (edges.empty() && stages > 1) return {};
  const double dearest = edges.empty() ? 0 : *std::max_element(edges.begin(), edges.end());
  std::vector<double> split;
  for (size_t s = 0; s < stages; ++s) {
    split.insert(split.end(), parts - 1, dearest);
    if (s + 1 < stages) split.push_back(edges[s]);
  }
  return split;
}

// The index of the best result, of one per cut. Every timetable belongs to some cut, so the least of
// the bounds of the cuts bounds all of them.
absl::StatusOr<size_t> BestOf(const std::vector<absl::StatusOr<OptimisedTimetable>>& results,
                              Objective objective, double* bound) {
  std::optional<size_t> best;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok()) {
      if (absl::IsResourceExhausted(results[i].status())) continue;
      return results[i].status();
    }
    const double value = ObjectiveValue(results[i]->run, objective);
    *bound = best.has_value() ? std::min(*bound, results[i]->lower_bound) : results[i]->lower_bound;
    if (!best.has_value() || value < ObjectiveValue(results[*best]->run, objective)) best = i;
  }
  if (!best.has_value()) return results.front().status();
  return *best;
}

void UseBound(double bound, Objective objective, OptimisedTimetable* best) {
  const double value = ObjectiveValue(best->run, objective);
  best->lower_bound = bound;
  best->gap = GapOf(value, bound);
  best->optimal = bound == value;
  if (objective != Objective::kMakespan) return;
  best->run.lower_bound = best->lower_bound;
  best->run.gap = best->gap;
}

}  // namespace

StageCosts SplitStages(const StageCosts& costs, int parts) {
  StageCosts split;
  split.forward = Divide(costs.forward, parts);
  split.input_grad = Divide(costs.input_grad, parts);
  split.weight_grad = Divide(costs.weight_grad, parts);
  split.backward = Divide(costs.backward, parts);
  split.recompute = Divide(costs.recompute, parts);
  split.activation_bytes = Divide(costs.activation_bytes, parts);
  split.weight_grad_bytes = Divide(costs.weight_grad_bytes, parts);
  split.checkpoint_bytes = Divide(costs.checkpoint_bytes, parts);
  split.send = SplitEdges(costs.send, costs.forward.size(), parts);
  if (!costs.link_busy.empty()) {
    split.link_busy = SplitEdges(costs.link_busy, costs.forward.size(), parts);
  }
  split.overlap = costs.overlap < 0 ? costs.overlap : costs.overlap / parts;
  return split;
}

std::vector<Cut> CutsOf(int ranks, const StageCosts& costs, int most_parts) {
  std::vector<Cut> cuts{{1, Placement::Looped(ranks), costs}};
  for (int parts = 2; parts <= most_parts; parts *= 2) {
    const StageCosts split = SplitStages(costs, parts);
    cuts.push_back({parts, Placement::Looped(ranks, parts), split});
    cuts.push_back({parts, Placement::V(ranks, parts), split});
  }
  return cuts;
}

int LimitOfParts(int limit, int parts) {
  // No timetable has as many.
  return limit > INT_MAX / parts ? INT_MAX : limit * parts;
}

OptimiseRequest RequestFor(const Cut& cut, const OptimiseRequest& request) {
  OptimiseRequest cut_request = request;
  cut_request.placement = cut.placement;
  cut_request.costs = cut.costs;
  cut_request.seeds.clear();
  for (int& limit : cut_request.limits.activations) limit = LimitOfParts(limit, cut.parts);
  return cut_request;
}

absl::StatusOr<OptimisedTimetable> ChooseTimetable(const OptimiseRequest& request,
                                                   const std::vector<Cut>& cuts) {
  std::vector<absl::StatusOr<OptimisedTimetable>> results;
  for (const Cut& cut : cuts) {
    OptimiseRequest cut_request = RequestFor(cut, request);
    if (request.time_limit.has_value()) {
      cut_request.time_limit = *request.time_limit / static_cast<double>(cuts.size());
    }
    results.push_back(OptimiseTimetable(cut_request));
  }
  double bound = 0;
  const absl::StatusOr<size_t> best = BestOf(results, request.objective, &bound);
  if (!best.ok()) return best.status();
  UseBound(bound, request.objective, &*results[*best]);
  return std::move(results[*best]);
}

absl::StatusOr<std::vector<TradeOff>> SweepMemory(const OptimiseRequest& request,
                                                  const std::vector<Cut>& cuts,
                                                  const std::vector<int>& limits) {
  std::vector<std::optional<OptimisedTimetable>> previous(cuts.size());
  std::vector<TradeOff> curve;
  for (int limit : limits) {
    std::vector<absl::StatusOr<OptimisedTimetable>> results(
        cuts.size(), absl::ResourceExhaustedError("not searched"));
    ParallelFor(cuts.size(), [&](size_t i) {
      OptimiseRequest at_limit = request;
      at_limit.limits.activations.assign(request.placement.ranks(), limit);
      at_limit = RequestFor(cuts[i], at_limit);
      if (request.time_limit.has_value()) {
        at_limit.time_limit = *request.time_limit / static_cast<double>(limits.size());
      }
      if (previous[i].has_value()) at_limit.seeds.push_back(previous[i]->table);
      results[i] = OptimiseTimetable(at_limit);
    });
    double bound = 0;
    const absl::StatusOr<size_t> best = BestOf(results, request.objective, &bound);
    if (absl::IsResourceExhausted(best.status())) continue;
    if (!best.ok()) return best.status();
    for (size_t i = 0; i < cuts.size(); ++i) {
      if (results[i].ok()) previous[i] = *results[i];
    }
    UseBound(bound, request.objective, &*results[*best]);
    curve.push_back({limit, cuts[*best], *std::move(results[*best])});
  }
  if (curve.empty()) {
    return absl::ResourceExhaustedError("no limit of the sweep can be met; give more memory");
  }
  return curve;
}

}  // namespace sluice
