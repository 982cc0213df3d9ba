#include "schedules/generators/interleaved_order.h"

#include <algorithm>

namespace sluice {

std::vector<int> InterleavedGroups(const ScheduleRequest& request) {
  const int m = request.micro_batches;
  // With one chunk the order is the same whatever the groups are.
  if (request.chunks == 1) return {m};
  if (request.group == 0) {
    const int groups = std::max(1, m / request.ranks);
    std::vector<int> sizes(groups, m / groups);
    for (int i = 0; i < m % groups; ++i) ++sizes[i];
    return sizes;
  }
  std::vector<int> sizes(m / request.group, request.group);
  const int rest = m % request.group;
  if (rest == 0) return sizes;
  if (sizes.empty() || rest >= request.ranks || request.group < request.ranks) {
    sizes.push_back(rest);
  } else {
    sizes.back() += rest;
  }
  return sizes;
}

InterleavedOrder VisitInterleaved(const ScheduleRequest& request) {
  InterleavedOrder order;
  int first = 0;
  for (const int size : InterleavedGroups(request)) {
    const int slots = request.chunks == 1 ? size : std::max(size, request.ranks);
    order.largest_group = std::max(order.largest_group, slots);
    for (int c = 0; c < request.chunks; ++c) {
      for (int i = 0; i < slots; ++i) {
        const int b = i < size ? first + i : request.micro_batches;
        order.forwards.push_back({c, b});
        order.backwards.push_back({request.chunks - 1 - c, b});
      }
    }
    first += size;
  }
  return order;
}

}  // namespace sluice
