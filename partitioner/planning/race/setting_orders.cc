#include "partitioner/planning/race/setting_orders.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

constexpr size_t kMostOrders = 128;

}  // namespace

absl::StatusOr<std::vector<std::vector<int>>> DeviceOrders(const std::vector<int>& kinds,
                                                           int shared, int pipeline) {
  if (kinds.size() <= 1) return std::vector<std::vector<int>>{{}};
  std::vector<int> order;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (kinds[kind] % shared != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Counted(kinds[kind], "device"),
                       " of one kind cannot be divided evenly among stages of ", shared));
    }
    order.insert(order.end(), kinds[kind] / shared, static_cast<int>(kind));
  }
  if (static_cast<int>(order.size()) != pipeline) {
    return absl::InvalidArgumentError(
        "a cluster of different devices is planned as a whole: give --devices all of them");
  }
  std::vector<std::vector<int>> orders;
  do {
    orders.push_back(order);
    if (orders.size() > kMostOrders) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there are more than ", kMostOrders, " orders of these devices in a pipeline of ",
          pipeline, " ranks; give a larger --data-parallel or --tensor-parallel, ",
          "which leaves fewer ranks"));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

}  // namespace sluice
