#ifndef SLUICE_TOOLS_TRAIN_LOG_RUN_LOG_H_
#define SLUICE_TOOLS_TRAIN_LOG_RUN_LOG_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/log/metrics_log.h"

namespace sluice {

// The file of --log, a line for each step and each evaluation, which is in the file when the call
// returns. A run that begins at step 0 replaces the file; one that is resumed appends to it, after
// the lines of later steps have been removed. Errors: InvalidArgument where the file cannot be
// written or is no such log, ResourceExhausted for a full disk; each names the file.
absl::StatusOr<std::unique_ptr<MetricsLog>> MakeRunLog(const std::string& path);

// Whether a run could write there; changes nothing. What stands there must be such a log, or empty:
// no other file is replaced.
absl::Status CheckRunLog(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_RUN_LOG_H_
