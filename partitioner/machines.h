#ifndef SLUICE_PARTITIONER_MACHINES_H_
#define SLUICE_PARTITIONER_MACHINES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "partitioner/costs/link.h"
#include "partitioner/cuts/cost_table.h"

namespace sluice {

// The devices of a pipeline: what layers cost on each rank, how much memory it has, and the links
// between ranks. A vector by rank is empty where one value holds for all ranks.
struct Machines {
  // Of chains of layers, and then never null once a question is asked; a graph has its own.
  std::shared_ptr<const CostTable> costs;
  std::vector<std::shared_ptr<const CostTable>> rank_costs;  // [rank]; empty: `costs` everywhere
  Link link;
  // [rank] from that rank to the next one, from the last to the first; empty: `link` everywhere.
  std::vector<Link> rank_links;
  std::optional<int64_t> memory_limit;  // bytes of each rank; nothing: as much as is needed
  std::vector<int64_t> rank_memory;     // [rank] bytes; empty: `memory_limit` everywhere

  const CostTable& CostsOf(int rank) const {
    return rank_costs.empty() ? *costs : *rank_costs[rank];
  }
  // Every table that a rank's costs could come from.
  std::vector<const CostTable*> tables() const;
  // The same machines with the costs of timetables that run W apart from I.
  Machines Apart() const;

  // What a message from rank `from` to rank `to` takes. A link serves both directions: a placement
  // that turns back uses the one that it came over. Between ranks that are further apart, the
  // longest latency and the least bandwidth on the way count.
  Link LinkBetween(int from, int to) const {
    return rank_links.empty() ? link : SlowestLink(from, to);
  }

  bool limits_memory() const { return memory_limit.has_value() || !rank_memory.empty(); }
  // Bytes of `rank`. Requires limits_memory(), as the next one.
  int64_t MemoryOf(int rank) const {
    return rank_memory.empty() ? *memory_limit : rank_memory[rank];
  }
  // Bytes of the rank that has least.
  int64_t least_memory() const;
  // Whether all ranks have the same costs, memory and links.
  bool alike() const { return rank_costs.empty() && rank_links.empty() && rank_memory.empty(); }
  // Gives every rank `limit` bytes; nothing: as much as is needed.
  void SetMemory(std::optional<int64_t> limit);

 private:
  Link SlowestLink(int from, int to) const;
};

// InvalidArgument when a vector by rank is neither empty nor as long as there are `ranks`, when
// ranks disagree about the number of layers, or when a link or limit makes no sense.
absl::Status ValidateMachines(const Machines& machines, int ranks);
// The same for what is planned for equal devices only: also when ranks differ.
absl::Status ValidateEqualMachines(const Machines& machines, int ranks);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_MACHINES_H_
