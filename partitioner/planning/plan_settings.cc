#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/planning/joint_plan.h"

namespace sluice {
namespace {

// `given`, or every divisor of `whole` up to `most`.
std::vector<int> Degrees(const std::optional<int>& given, int whole, int most) {
  if (given) return {*given};
  std::vector<int> degrees;
  for (int degree = 1; degree <= std::min(whole, most); ++degree) {
    if (whole % degree == 0) degrees.push_back(degree);
  }
  return degrees;
}

std::vector<int64_t> Sizes(const std::optional<int64_t>& given, int64_t samples) {
  if (given) return {*given};
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= samples && samples % size == 0; size *= 2) sizes.push_back(size);
  return sizes;
}

absl::Status NoSetting(const SettingChoices& choices) {
  std::string why = absl::StrCat("no way to use ", choices.devices, " devices: ");
  const int data = choices.data.value_or(1), tensor = choices.tensor.value_or(1);
  if (choices.devices % (data * tensor) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, "data ", data, " x tensor ", tensor, " does not divide them"));
  }
  if (!choices.data && choices.devices / tensor > choices.layers && choices.global_batch % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(why, choices.global_batch,
                                                   " samples do not share out over replicas, and ",
                                                   choices.layers, " layers not over all of them"));
  }
  if (choices.global_batch % data != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        why, choices.global_batch, " samples do not share out over ", data, " replicas"));
  }
  if (choices.micro_batch_size && choices.global_batch / data % *choices.micro_batch_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, "the ", choices.global_batch / data, " samples of a replica are no ",
                     "multiple of the micro-batch size ", *choices.micro_batch_size));
  }
  return absl::InvalidArgumentError(absl::StrCat(choices.devices / (data * tensor),
                                                 " ranks are more than the ", choices.layers,
                                                 " layers; every stage needs at least one"));
}

}  // namespace

absl::StatusOr<std::vector<PlanSetting>> ListSettings(const SettingChoices& choices) {
  std::vector<PlanSetting> settings;
  for (int tensor : Degrees(choices.tensor, choices.devices, choices.most_tensor)) {
    if (tensor < 1 || choices.devices % tensor != 0) continue;
    for (int data : Degrees(choices.data, choices.devices / tensor, choices.devices)) {
      if (data < 1 || choices.devices / tensor % data != 0) continue;
      const int pipeline = choices.devices / tensor / data;
      if (pipeline > choices.layers || choices.global_batch % data != 0) continue;
      const int64_t samples = choices.global_batch / data;
      for (int64_t size : Sizes(choices.micro_batch_size, samples)) {
        if (samples % size != 0) continue;
        PlanSetting setting;
        setting.data = data;
        setting.tensor = tensor;
        setting.pipeline = pipeline;
        setting.micro_batch_size = size;
        setting.micro_batches = static_cast<int>(samples / size);
        settings.push_back(setting);
      }
    }
  }
  if (settings.empty()) return NoSetting(choices);
  return settings;
}

}  // namespace sluice
