#ifndef SLUICE_TESTS_PARTITIONER_RANDOM_CHAIN_H_
#define SLUICE_TESTS_PARTITIONER_RANDOM_CHAIN_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "partitioner/costs/layer_cost.h"
#include "partitioner/partition_problem.h"
#include "schedules/generators/catalogue.h"
#include "schedules/simulate/simulate.h"

namespace sluice {

using Random = std::mt19937_64;

inline int Below(Random& random, int limit) { return static_cast<int>(random() % limit); }

// As a head is tied to the embedding.
inline void TieLastLayer(std::vector<LayerCost>& layers) {
  const int64_t most = std::min(layers.front().parameter_bytes, layers.back().parameter_bytes);
  layers.back().tied_bytes = 97 * layers.front().saved_bytes[0] % (most + 1);
  layers.back().tied_update_seconds = std::floor(layers.back().update_seconds / 2);
  layers.back().tied_gradient_bytes = layers.front().saved_bytes[0] % 40;
  layers.back().tied_sum_seconds = std::floor(layers.back().forward_seconds / 2);
}

// Layers with small whole costs (so that there are many ties) or real ones (so that there are
// none).
inline std::vector<LayerCost> RandomLayers(Random& random, int count) {
  const bool whole = random() % 2 == 0;
  const auto seconds = [&] {
    return whole ? Below(random, 6) : std::uniform_real_distribution<double>(0, 5)(random);
  };
  std::vector<LayerCost> layers(count);
  for (int i = 0; i < count; ++i) {
    LayerCost& layer = layers[i];
    layer.name = "layer " + std::to_string(i);
    layer.forward_seconds = seconds();
    layer.input_grad_seconds = seconds();
    layer.weight_grad_seconds = seconds();
    layer.restore_seconds = layer.forward_seconds * 0.3;
    if (whole) layer.update_seconds = Below(random, 4);
    if (!whole) layer.sync_seconds = seconds();
    layer.parameters = Below(random, 50);
    layer.parameter_bytes = 4 * layer.parameters;
    layer.saved_bytes = {60 + Below(random, 60), 20 + Below(random, 40), 1 + Below(random, 20)};
    layer.weight_grad_bytes = Below(random, 60);
    layer.output_bytes = Below(random, 20);
    layer.workspace_bytes = Below(random, 40);
    layer.forward_workspace_bytes = 7 * layer.workspace_bytes % (layer.workspace_bytes + 1);
  }
  if (count > 1 && layers.front().saved_bytes[0] % 2 == 0) TieLastLayer(layers);
  return layers;
}

// A schedule of the catalogue that can be planned, with any shape that it takes and at most
// `layers` stages.
inline Timetable RandomTimetable(Random& random, int layers) {
  while (true) {
    const CatalogueEntry& entry = Catalogue()[random() % Catalogue().size()];
    if (entry.updates != WeightUpdates::kFlush || entry.copies > 1) continue;
    ScheduleRequest request;
    request.ranks = 1 + Below(random, 4);
    request.chunks = 1 + Below(random, 3);
    request.micro_batches = 1 + Below(random, 8);
    if (request.ranks * request.chunks > layers) continue;
    absl::StatusOr<Timetable> timetable = GenerateSchedule(entry.name, request);
    if (timetable.ok()) return *std::move(timetable);
  }
}

inline Link RandomLink(Random& random) {
  Link link;
  if (random() % 2 == 0) link.latency = Below(random, 3);
  if (random() % 2 == 0) link.bandwidth = 1 + Below(random, 20);
  return link;
}

// Seconds of a step: of the simulation, and of the work of each rank after its last action.
inline double SimulatedSeconds(const Timetable& timetable, const StepCosts& costs) {
  const Simulation run = *Simulate(timetable, costs);
  double seconds = 0;
  for (int rank = 0; rank < timetable.placement.ranks(); ++rank) {
    double end = run.rows[rank].empty() ? 0 : run.rows[rank].back().end;
    for (int stage : timetable.placement.StagesOf(rank)) end += costs.tail[stage];
    seconds = std::max(seconds, end);
  }
  return seconds;
}

// Calls `visit` with every partition of `layers` layers into `stages` stages.
inline void ForEachPartition(int layers, int stages,
                             const std::function<void(const Partition&)>& visit) {
  Partition partition;
  const std::function<void(int)> extend = [&](int first) {
    const int left = stages - static_cast<int>(partition.size());
    if (left == 0) {
      if (first == layers) visit(partition);
      return;
    }
    for (int last = first; last + left <= layers; ++last) {
      partition.push_back({first, last});
      extend(last + 1);
      partition.pop_back();
    }
  };
  extend(0);
}

// Calls `visit` with every choice of a policy at each of `stages` stages.
inline void ForEachRecompute(const std::vector<Recompute>& policies, int stages,
                             const std::function<void(const std::vector<Recompute>&)>& visit) {
  std::vector<Recompute> choice;
  const std::function<void()> extend = [&] {
    if (static_cast<int>(choice.size()) == stages) {
      visit(choice);
      return;
    }
    for (Recompute policy : policies) {
      choice.push_back(policy);
      extend();
      choice.pop_back();
    }
  };
  extend();
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_RANDOM_CHAIN_H_
