#ifndef SLUICE_PARTITIONER_PLANNING_RACE_SETTING_ORDERS_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_SETTING_ORDERS_H_

#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// Every order in which ranks could hold devices of different kinds: [rank] the kind. `kinds` is
// [kind] how many there are, `shared` how many of one kind each of the `pipeline` ranks takes. One
// empty order where all devices are alike. InvalidArgument when kinds do not share out, or there
// are too many orders.
absl::StatusOr<std::vector<std::vector<int>>> DeviceOrders(const std::vector<int>& kinds,
                                                           int shared, int pipeline);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_SETTING_ORDERS_H_
