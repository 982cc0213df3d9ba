#include "schedules/simulate/stage_costs.h"

#include <cassert>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::Status CheckVector(const char* what, const std::vector<double>& values, size_t expected) {
  if (values.size() != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("cost ", what, " has ", values.size(), " values, expected ", expected));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || values[i] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("cost ", what, "[", i, "] is ", values[i],
                                                     "; it must be a finite number, at least 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLinks(const StageCosts& costs) {
  if (costs.link_busy.empty()) return absl::OkStatus();
  if (absl::Status ok = CheckVector("link_busy", costs.link_busy, costs.send.size()); !ok.ok()) {
    return ok;
  }
  for (size_t edge = 0; edge < costs.send.size(); ++edge) {
    if (costs.link_busy[edge] <= costs.send[edge]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cost link_busy[", edge, "] is ", costs.link_busy[edge],
                     "; it is a part of send, which is ", costs.send[edge]));
  }
  return absl::OkStatus();
}

}  // namespace

StageCosts StageCosts::Uniform(int stages, double f, double i, double w, double send_latency) {
  StageCosts costs;
  costs.forward.assign(stages, f);
  costs.input_grad.assign(stages, i);
  costs.weight_grad.assign(stages, w);
  costs.backward.assign(stages, i + w);
  costs.send.assign(stages > 0 ? stages - 1 : 0, send_latency);
  return costs;
}

void ApplyRankSpeeds(const Placement& placement, const std::vector<double>& speeds,
                     StageCosts* costs) {
  assert(static_cast<int>(speeds.size()) == placement.ranks() && costs->overlap < 0);
  for (auto* durations : {&costs->forward, &costs->input_grad, &costs->weight_grad,
                          &costs->backward, &costs->recompute}) {
    for (size_t s = 0; s < durations->size(); ++s) {
      (*durations)[s] /= speeds[static_cast<size_t>(placement.rank(static_cast<int>(s)))];
    }
  }
}

absl::Status CheckCosts(const StageCosts& costs, int stages) {
  const size_t n = static_cast<size_t>(stages);
  const std::pair<const char*, const std::vector<double>*> durations[] = {{"F", &costs.forward},
                                                                          {"I", &costs.input_grad},
                                                                          {"W", &costs.weight_grad},
                                                                          {"B", &costs.backward}};
  for (const auto& [name, values] : durations) {
    if (absl::Status ok = CheckVector(name, *values, n); !ok.ok()) return ok;
  }
  if (absl::Status ok = CheckVector("send", costs.send, n - 1); !ok.ok()) return ok;
  if (absl::Status ok = CheckLinks(costs); !ok.ok()) return ok;
  const std::pair<const char*, const std::vector<double>*> optional[] = {
      {"RECOMPUTE", &costs.recompute},
      {"activation_bytes", &costs.activation_bytes},
      {"weight_grad_bytes", &costs.weight_grad_bytes},
      {"checkpoint_bytes", &costs.checkpoint_bytes}};
  for (const auto& [name, values] : optional) {
    if (values->empty()) continue;
    if (absl::Status ok = CheckVector(name, *values, n); !ok.ok()) return ok;
  }
  if (std::isfinite(costs.overlap)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cost overlap is ", costs.overlap, "; it must be finite"));
}

}  // namespace sluice
