#include "pipeline/compile/plan/rank_memory.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "models/spec/units.h"

namespace sluice {

std::string DescribeArena(const RankMemory& memory) {
  constexpr double kMebi = 1 << 20;
  std::string text = DescribeMemory(memory.total);
  const char* before = ": ";
  for (const auto& [what, bytes] :
       {std::pair{"parameters", memory.parameters}, std::pair{"gradients", memory.gradients},
        std::pair{"optimizer state", memory.optimizer}, std::pair{"compute copies", memory.packed},
        std::pair{"older versions", memory.stashed},
        std::pair{"another rank's state", memory.mirror}, std::pair{"audits", memory.audit},
        std::pair{"within a step", memory.activations}}) {
    if (bytes == 0) continue;
    absl::StrAppendFormat(&text, "%s%s %.1f MiB", before, what, static_cast<double>(bytes) / kMebi);
    before = ", ";
  }
  return text;
}

}  // namespace sluice
