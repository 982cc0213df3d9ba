#include "partitioner/planning/question/setting.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

std::string PlanSetting::Describe() const {
  std::string text;
  if (data > 1) absl::StrAppend(&text, "data ", data, " x ");
  if (tensor > 1) absl::StrAppend(&text, "tensor ", tensor, " x ");
  absl::StrAppend(&text, "pipeline ", pipeline, ", ", micro_batches,
                  micro_batches == 1 ? " micro-batch of " : " micro-batches of ", micro_batch_size);
  if (policy) absl::StrAppend(&text, ", recompute ", RecomputeName(*policy));
  return text;
}

PlanRequest RequestOf(const PlanRequest& common, const PlanSetting& setting, Machines machines) {
  PlanRequest request = common;
  request.machines = std::move(machines);
  request.devices = setting.pipeline;
  request.micro_batches = setting.micro_batches;
  if (setting.policy) request.policies = {*setting.policy};
  return request;
}

}  // namespace sluice
