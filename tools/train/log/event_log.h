#ifndef SLUICE_TOOLS_TRAIN_LOG_EVENT_LOG_H_
#define SLUICE_TOOLS_TRAIN_LOG_EVENT_LOG_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/train/log/metrics_log.h"

namespace sluice {

// The event files of --tensorboard DIR, for TensorBoard: the numbers of each step and each
// evaluation, with the names that they have in --json. Each start of the run is a file of its own;
// TensorBoard shows, of steps that were taken twice, the last. Each plan's timetable is an image,
// "timetable", of the step before its first. Where the image cannot be made, or takes longer than a
// third of `timeout`, for which ranks wait for each other, `notice` is told so once, and the
// numbers are written all the same.
std::unique_ptr<MetricsLog> MakeEventLog(const std::string& directory, absl::Duration timeout,
                                         std::function<void(const std::string&)> notice);

// Makes the directory if need be. An error names it: files cannot be made there.
absl::Status CheckEventLog(const std::string& directory);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_EVENT_LOG_H_
