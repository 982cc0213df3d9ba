#ifndef SLUICE_PARTITIONER_PLAN_REQUEST_H_
#define SLUICE_PARTITIONER_PLAN_REQUEST_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "models/spec/model_spec.h"
#include "partitioner/costs/link.h"
#include "partitioner/cuts/cost_table.h"
#include "schedules/partition.h"

namespace sluice {

enum class PlanObjective : uint8_t { kStep, kBottleneck };

// What is to be planned. `costs` stays the caller's.
struct PlanRequest {
  const CostTable* costs = nullptr;
  int devices = 1;
  int micro_batches = 1;
  std::string schedule = "auto";  // or a name of the catalogue
  int chunks = 0;                 // stages a device; 0: what suits the schedule
  std::vector<Recompute> policies = {Recompute::kNone};
  Link link;
  std::optional<int64_t> memory_limit;
  PlanObjective objective = PlanObjective::kStep;
  std::optional<Partition> partition;  // prices this one only
  // Where devices differ, as in PartitionProblem: by rank, and by stage of the timetable with one
  // stage a rank (chunks repeat it).
  std::vector<const CostTable*> rank_costs;
  std::vector<Link> rank_links;  // [rank] from a rank to the next one, the last to the first
  std::vector<int64_t> rank_memory;

  // Good enough: a plan proved to take at most this much longer, relatively, than the best.
  double gap = 0;
  // Seconds of a plan that is known: one that takes as long or longer is of no interest.
  double cutoff = std::numeric_limits<double>::infinity();
  // Elementary steps that the searches share, as SearchOptions counts them.
  int64_t budget = 600'000'000;
  // Asked now and then, from several threads; true ends the search with what it has.
  std::function<bool()> stop;
  // Only timetables with stage s on rank s mod devices, as Megatron-LM has them.
  bool round_robin = false;

  bool limits_memory() const { return memory_limit.has_value() || !rank_memory.empty(); }
  // Bytes of the device of `rank`. Requires limits_memory(), as the next one.
  int64_t memory_of(int rank) const {
    return rank_memory.empty() ? *memory_limit : rank_memory[rank];
  }
  // Of the smallest device.
  int64_t least_memory() const {
    return rank_memory.empty() ? *memory_limit
                               : *std::min_element(rank_memory.begin(), rank_memory.end());
  }
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLAN_REQUEST_H_
