#include "pipeline/train/arithmetic.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/kernels/portable_kernels.h"

namespace sluice {

std::string ArithmeticOf(const TrainOptions& options) {
  if (options.running.devices.empty()) {
    return absl::StrCat("oneDNN with ", ProductInstructions(), ", vectors with ",
                        VectorInstructions());
  }
  std::set<std::string> kinds;
  for (const RankDevice& device : options.running.devices) kinds.insert(device.device->kind());
  const std::string& algorithms = options.running.algorithms;
  return absl::StrCat(absl::StrJoin(kinds, " and "),
                      algorithms.empty() ? "" : " with the products' algorithms ", algorithms);
}

}  // namespace sluice
