#include "comm/collectives/machine_sum.h"

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

absl::StatusOr<int64_t> SumOverMachine(Communicator& group, int64_t mine, Instant deadline,
                                       const MachineProcess& self) {
  // As many bits of the hash as a double has.
  const auto machine = static_cast<double>(self.machine >> 11U);
  const double own[] = {machine, static_cast<double>(mine)};
  std::vector<double> all(2 * static_cast<size_t>(group.size()));
  absl::Status status = group.AllGather(own, absl::MakeSpan(all), deadline);
  if (!status.ok()) return status;
  if (machine == 0) return mine;
  int64_t sum = 0;
  for (size_t i = 0; i < all.size(); i += 2) {
    if (all[i] == machine) sum += static_cast<int64_t>(all[i + 1]);
  }
  return sum;
}

}  // namespace sluice
