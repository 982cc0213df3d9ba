#include "partitioner/machines.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// The costs of `table` where W runs apart from I; they live as long as the table.
std::shared_ptr<const CostTable> ApartOf(const std::shared_ptr<const CostTable>& table) {
  return {table, &table->apart()};
}

absl::Status CheckLink(const Link& link) {
  if (!std::isfinite(link.latency) || link.latency < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the link's latency is ", link.latency, " s; expected 0 or more, finite"));
  }
  if (!(link.bandwidth > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the link's bandwidth is ", link.bandwidth, " B/s; expected more than 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const Machines& machines, int ranks) {
  const auto one_per_rank = [ranks](size_t given) {
    return given == 0 || given == static_cast<size_t>(ranks);
  };
  if (one_per_rank(machines.rank_costs.size()) && one_per_rank(machines.rank_memory.size()) &&
      one_per_rank(machines.rank_links.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "costs, memory and links by rank are for ", machines.rank_costs.size(), ", ",
      machines.rank_memory.size(), " and ", machines.rank_links.size(), " of ", ranks, " ranks"));
}

}  // namespace

std::vector<const CostTable*> Machines::tables() const {
  if (rank_costs.empty()) return {costs.get()};
  std::vector<const CostTable*> tables;
  for (const auto& table : rank_costs) tables.push_back(table.get());
  return tables;
}

Machines Machines::Apart() const {
  Machines apart = *this;
  apart.costs = ApartOf(costs);
  for (std::shared_ptr<const CostTable>& table : apart.rank_costs) table = ApartOf(table);
  return apart;
}

Link Machines::SlowestLink(int from, int to) const {
  const int ranks = static_cast<int>(rank_links.size());
  if (to == (from + 1) % ranks) return rank_links[from];
  Link slowest = rank_links[std::min(from, to)];
  for (int rank = std::min(from, to); rank < std::max(from, to); ++rank) {
    slowest.latency = std::max(slowest.latency, rank_links[rank].latency);
    slowest.bandwidth = std::min(slowest.bandwidth, rank_links[rank].bandwidth);
  }
  return slowest;
}

int64_t Machines::least_memory() const {
  return rank_memory.empty() ? *memory_limit
                             : *std::min_element(rank_memory.begin(), rank_memory.end());
}

void Machines::SetMemory(std::optional<int64_t> limit) {
  memory_limit = limit;
  rank_memory.clear();
}

absl::Status ValidateMachines(const Machines& machines, int ranks) {
  if (absl::Status status = CheckSizes(machines, ranks); !status.ok()) return status;
  for (const auto& costs : machines.rank_costs) {
    if (costs->layer_count() == machines.costs->layer_count()) continue;
    return absl::InvalidArgumentError("ranks disagree about the number of layers");
  }
  for (const Link& link : machines.rank_links) {
    if (absl::Status status = CheckLink(link); !status.ok()) return status;
  }
  if (absl::Status status = CheckLink(machines.link); !status.ok()) return status;
  if (machines.memory_limit && *machines.memory_limit <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the memory limit is ", *machines.memory_limit,
                                                   " bytes; expected more than 0"));
  }
  return absl::OkStatus();
}

absl::Status ValidateEqualMachines(const Machines& machines, int ranks) {
  if (!machines.alike()) {
    return absl::InvalidArgumentError(
        "graphs are planned for equal devices; got costs, memory or links by rank");
  }
  return ValidateMachines(machines, ranks);
}

}  // namespace sluice
