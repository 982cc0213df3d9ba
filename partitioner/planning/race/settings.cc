#include "partitioner/planning/race/settings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/planning/race/setting_orders.h"
#include "schedules/counted.h"

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
  std::string why = absl::StrCat("no way to use ", Counted(choices.devices, "device"), ": ");
  const int data = choices.data.value_or(1), tensor = choices.tensor.value_or(1);
  if (choices.devices % (data * tensor) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, "data ", data, " x tensor ", tensor, " does not divide them"));
  }
  if (!choices.data && choices.devices / tensor > choices.layers && choices.global_batch % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(why, Counted(choices.global_batch, "sample"),
                                                   " cannot be divided evenly among replicas, and ",
                                                   Counted(choices.layers, "layer"),
                                                   " not over all of them"));
  }
  if (choices.global_batch % data != 0) {
    return absl::InvalidArgumentError(absl::StrCat(why, Counted(choices.global_batch, "sample"),
                                                   " cannot be divided evenly among ",
                                                   Counted(data, "replica")));
  }
  if (choices.micro_batch_size && choices.global_batch / data % *choices.micro_batch_size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, "the ", choices.global_batch / data, " samples of a replica are no ",
                     "multiple of the micro-batch size ", *choices.micro_batch_size));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Counted(choices.devices / (data * tensor), "rank"), " are more than the ",
                   Counted(choices.layers, "layer"),
                   "; every stage needs at least one: use more replicas "
                   "(--data-parallel) or fewer devices"));
}

// Refuses a number of micro-batches where their size or the replicas are to be chosen: each choice
// would train on other samples in a step, so that no step could be compared with another.
absl::Status CheckMicroBatches(const PlanQuestion& question) {
  const char* open = question.any_micro_batch_size ? "--micro-batch-size auto"
                     : !question.data_parallel     ? "--data-parallel auto"
                                                   : nullptr;
  if (open == nullptr || !question.micro_batches) return absl::OkStatus();
  const std::string given =
      absl::StrCat("--micro-batches ", *question.micro_batches, " beside ", open);
  if (question.global_batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(given, " and --global-batch ", *question.global_batch,
                     " leaves nothing to choose; leave out --micro-batches"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      given, " leaves open how many samples a step has, and only steps of as many can ",
      "be compared; give --global-batch instead, the samples of all replicas"));
}

// Samples of a step, of all replicas.
absl::StatusOr<int64_t> GlobalBatch(const PlanQuestion& question, int64_t micro_batch_size) {
  if (absl::Status ok = CheckMicroBatches(question); !ok.ok()) return ok;
  const int64_t replicas = question.data_parallel.value_or(1);
  if (!question.global_batch) {
    return replicas * question.micro_batches.value_or(kPlannedMicroBatches) * micro_batch_size;
  }
  const int64_t samples = *question.global_batch;
  if (question.any_micro_batch_size || !question.data_parallel) return samples;
  const int64_t at_once = replicas * micro_batch_size;
  if (samples % at_once != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global-batch ", samples, " is no multiple of the micro-batch size ", micro_batch_size,
        replicas > 1 ? absl::StrCat(" x ", replicas, " replicas") : ""));
  }
  if (question.micro_batches && *question.micro_batches != samples / at_once) {
    return absl::InvalidArgumentError(
        absl::StrCat("--global-batch ", samples, " makes ",
                     Counted(samples / at_once, "micro-batch"), " of ", micro_batch_size,
                     ", not --micro-batches ", *question.micro_batches, "; give one of the two"));
  }
  return samples;
}

// What the stages of one setting may do: anything (nullopt), or all the same.
std::vector<std::optional<Recompute>> PoliciesOf(const PlanQuestion& question) {
  if (question.trainer == Trainer::kSluice || question.policies.size() == 1) return {std::nullopt};
  return {question.policies.begin(), question.policies.end()};
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

absl::StatusOr<std::vector<PlanSetting>> SettingsOf(const PlanQuestion& question,
                                                    const PlanSource& source) {
  SettingChoices wanted;
  wanted.devices = question.devices;
  wanted.data = question.data_parallel;
  wanted.tensor = question.tensor_parallel;
  wanted.most_tensor = source.most_tensor;
  wanted.layers = source.layers;
  if (!question.any_micro_batch_size) wanted.micro_batch_size = source.batch.size;
  const absl::StatusOr<int64_t> samples = GlobalBatch(question, source.batch.size);
  if (!samples.ok()) return samples.status();
  wanted.global_batch = *samples;
  const absl::StatusOr<std::vector<PlanSetting>> listed = ListSettings(wanted);
  if (!listed.ok()) return listed.status();
  std::vector<PlanSetting> settings;
  absl::Status first_failure;
  for (const PlanSetting& setting : *listed) {
    absl::StatusOr<std::vector<std::vector<int>>> orders =
        DeviceOrders(source.kinds, setting.data * setting.tensor, setting.pipeline);
    if (!orders.ok()) {
      first_failure.Update(orders.status());
      continue;
    }
    for (const std::vector<int>& order : *orders) {
      for (const std::optional<Recompute>& policy : PoliciesOf(question)) {
        settings.push_back(setting);
        settings.back().rank_devices = order;
        if (!order.empty()) settings.back().kinds = source.kind_names;
        settings.back().policy = policy;
      }
    }
  }
  if (settings.empty()) return first_failure;
  return settings;
}

}  // namespace sluice
