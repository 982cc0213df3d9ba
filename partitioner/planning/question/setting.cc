#include "partitioner/planning/question/setting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

// " (3 h100, 1 a100)": the kinds of neighbouring ranks; empty where all are alike.
std::string DescribeKinds(const PlanSetting& setting) {
  const std::vector<int>& kinds = setting.rank_devices;
  if (setting.kinds.empty()) return "";
  std::vector<std::string> runs;
  for (auto first = kinds.begin(); first != kinds.end();) {
    const auto end = std::find_if(first, kinds.end(), [&](int kind) { return kind != *first; });
    runs.push_back(absl::StrCat(end - first, " ", setting.kinds.at(*first)));
    first = end;
  }
  return absl::StrCat(" (", absl::StrJoin(runs, ", "), ")");
}

}  // namespace

std::string PlanSetting::Describe() const {
  std::string text;
  if (data > 1) absl::StrAppend(&text, "data ", data, " x ");
  if (tensor > 1) absl::StrAppend(&text, "tensor ", tensor, " x ");
  absl::StrAppend(&text, "pipeline ", pipeline, DescribeKinds(*this), ", ",
                  Counted(micro_batches, "micro-batch"), " of ", micro_batch_size);
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
