#include "partitioner/planning/question/megatron_schedules.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status CheckForMegatron(const std::string& schedule, int ranks, int micro_batches) {
  if (schedule == "1f1b") return absl::OkStatus();
  if (schedule != "interleaved") {
    return absl::InvalidArgumentError(
        absl::StrCat("Megatron-LM has no schedule ", schedule, "; it has 1f1b and interleaved"));
  }
  if (ranks < 2) {
    return absl::InvalidArgumentError(
        "Megatron-LM interleaves stages on 2 ranks at least, not on 1; give --schedule 1f1b");
  }
  if (micro_batches % ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Megatron-LM interleaves micro-batches in groups of ", ranks,
                     ", the number of ranks, and ", micro_batches, " are no multiple of that"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
