#include "partitioner/planning/question/limits.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

constexpr int64_t kMostDevices = 1 << 15;
constexpr int64_t kMostChunks = 1 << 12;
constexpr int64_t kMostTokens = 1 << 24;  // of a micro-batch: a layer's bytes stay below 2^62
constexpr int64_t kMostMicroBatches = 1 << 16;
constexpr int64_t kMostSamples = 1 << 24;
// Of one timetable, with one stage per device. A plan holds some twenty of them at a time, together
// 3 kB for each.
constexpr int64_t kMostForwards = 1 << 21;

absl::Status AtMost(const char* flag, int64_t value, int64_t most) {
  if (value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, " is ", value, "; expected at most ", most));
}

}  // namespace

absl::Status CheckLimits(const PlanQuestion& question) {
  absl::Status status = AtMost("--devices", question.devices, kMostDevices);
  status.Update(AtMost("--data-parallel", question.data_parallel.value_or(1), kMostDevices));
  status.Update(AtMost("--tensor-parallel", question.tensor_parallel.value_or(1), kMostDevices));
  status.Update(AtMost("--chunks", question.chunks.value_or(1), kMostChunks));
  status.Update(AtMost("--seq", question.seq.value_or(1), kMostTokens));
  status.Update(AtMost("--micro-batch-size", question.micro_batch_size.value_or(1), kMostTokens));
  status.Update(AtMost("--micro-batches", question.micro_batches.value_or(1), kMostMicroBatches));
  status.Update(AtMost("--global-batch", question.global_batch.value_or(1), kMostSamples));
  return status;
}

absl::Status CheckSettingLimits(const PlanSetting& setting, int64_t seq) {
  // Both factors are small: CheckLimits() has seen them, and sizes divide a global batch.
  const int64_t tokens = setting.micro_batch_size * seq;
  if (tokens > kMostTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("a micro-batch of ", Counted(setting.micro_batch_size, "sample"), " of ",
                     Counted(seq, "token"), " has ", tokens, " tokens; expected at most ",
                     kMostTokens, ": lower --micro-batch-size or --seq"));
  }
  const int64_t forwards = int64_t{setting.micro_batches} * setting.pipeline;
  if (setting.micro_batches > kMostMicroBatches || forwards > kMostForwards) {
    return absl::InvalidArgumentError(
        absl::StrCat(setting.micro_batches, " micro-batches on ",
                     Counted(setting.pipeline, "device"), " are too many; expected at most ",
                     std::min(kMostMicroBatches, kMostForwards / setting.pipeline),
                     ": lower --micro-batches or --global-batch, or raise --micro-batch-size"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
