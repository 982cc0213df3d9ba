#ifndef SLUICE_PARTITIONER_PLANNING_RACE_SETTINGS_H_
#define SLUICE_PARTITIONER_PLANNING_RACE_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "partitioner/planning/question/question.h"
#include "partitioner/planning/question/setting.h"
#include "partitioner/planning/sources/source.h"

namespace sluice {

// Every way to use exactly `devices` devices: `data` and `tensor` each one degree or, where empty,
// any; a pipeline of at most `layers` ranks; `global_batch` samples per step in micro-batches of
// `micro_batch_size` or, where that is empty, of any power of two. InvalidArgument when there is
// none: says which number does not divide which.
struct SettingChoices {
  int devices = 1;
  std::optional<int> data, tensor;
  int most_tensor = 1;  // where tensor is open
  int layers = 1;
  int64_t global_batch = 1;
  std::optional<int64_t> micro_batch_size;
};
absl::StatusOr<std::vector<PlanSetting>> ListSettings(const SettingChoices& choices);

// The settings that `question` allows for the layers of `source`, in every order of devices where
// these are of different kinds. InvalidArgument names the flags that do not fit together.
absl::StatusOr<std::vector<PlanSetting>> SettingsOf(const PlanQuestion& question,
                                                    const PlanSource& source);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_RACE_SETTINGS_H_
