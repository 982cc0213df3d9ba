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
  std::set<std::string> names;
  for (const RankDevice& device : options.running.devices) {
    const std::string name = device.device->name();  // "cuda:1 NVIDIA H200"
    names.insert(name.substr(name.find(' ') + 1));   // the number does not matter
  }
  return absl::StrJoin(names, " and ");
}

}  // namespace sluice
