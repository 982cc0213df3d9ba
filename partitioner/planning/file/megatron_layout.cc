#include "partitioner/planning/file/megatron_layout.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/round_robin.h"

namespace sluice {

absl::StatusOr<std::string> FormatMegatronLayout(const Placement& placement,
                                                 const Partition& partition,
                                                 const std::vector<std::string>& layer_names) {
  if (!IsRoundRobin(placement)) {
    return absl::InvalidArgumentError(
        "Megatron-LM deals its stages out to the ranks round robin, and this plan does not; choose "
        "a schedule that does, as --schedule 1f1b or interleaved");
  }
  std::string layout;
  for (const LayerRange& range : partition) {
    if (!layout.empty()) layout += '|';
    for (int layer = range.first; layer <= range.last; ++layer) {
      const std::string& name = layer_names[layer];
      if (name == "embedding") {
        layout += 'E';
      } else if (name == "head") {
        layout += 'L';
      } else if (name.rfind("block ", 0) == 0) {
        layout += 't';
      } else {
        return absl::InvalidArgumentError(absl::StrCat(
            "Megatron's layout knows an embedding, transformer blocks and a head, not '", name,
            "'"));
      }
    }
  }
  return layout;
}

}  // namespace sluice
