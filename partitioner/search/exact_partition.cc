#include "partitioner/search/exact_partition.h"

#include <memory>

#include "partitioner/search/partition_search.h"

namespace sluice {

absl::StatusOr<PartitionAnswer> FindExactPartition(const PartitionProblem& problem,
                                                   const SearchOptions& options) {
  absl::StatusOr<std::unique_ptr<PartitionSearch>> search = PartitionSearch::Create(problem);
  if (!search.ok()) return search.status();
  return (*search)->Run(options);
}

}  // namespace sluice
