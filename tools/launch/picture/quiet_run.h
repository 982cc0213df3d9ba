#ifndef SLUICE_TOOLS_LAUNCH_PICTURE_QUIET_RUN_H_
#define SLUICE_TOOLS_LAUNCH_PICTURE_QUIET_RUN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// A run that nothing happened to, to compare another one with.
struct QuietRun {
  std::string name;                 // the file's; "": there is none
  std::map<int64_t, float> losses;  // by step
  std::optional<uint64_t> weights_hash;
};

// From the lines of `sluice train --json`, or a log of `train --log FILE.jsonl`, which does not say
// what the weights were. InvalidArgument names the file, and the line that neither has; other errors
// are ReadWholeFile's.
absl::StatusOr<QuietRun> ReadQuietRun(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAUNCH_PICTURE_QUIET_RUN_H_
