#include "partitioner/planning/roofline/roofline.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

bool SameWork(const LaunchSum& a, const LaunchSum& b) {
  return std::tie(a.launches, a.flops, a.bytes) == std::tie(b.launches, b.flops, b.bytes);
}

bool SameWork(const LayerGroup& a, const LayerGroup& b) {
  return SameWork(a.forward, b.forward) && SameWork(a.input_grad, b.input_grad) &&
         SameWork(a.weight_grad, b.weight_grad);
}

// "block 0" with 12 layers is "block 0-11".
std::string NameOf(const std::string& first, int layers) {
  const std::vector<std::string> words = absl::StrSplit(first, ' ');
  int number = 0;
  if (layers == 1 || !absl::SimpleAtoi(words.back(), &number)) return first;
  return absl::StrCat(first, "-", number + layers - 1);
}

}  // namespace

void LaunchSum::Add(const KernelLaunch& launch, const DeviceSpec& sheet, Queueing queueing) {
  launches += launch.launches;
  flops += launch.flops;
  bytes += launch.bytes;
  bound_seconds += BoundSeconds(launch, sheet);
  expected_seconds += ExpectedSeconds(launch, sheet) + launch.launches * GapSeconds(queueing);
}

LaunchSum Sum(const Launches& launches, const DeviceSpec& sheet, Queueing queueing) {
  LaunchSum sum;
  for (const KernelLaunch& launch : launches) sum.Add(launch, sheet, queueing);
  return sum;
}

std::vector<KindSum> SumByKind(const Launches& launches, const DeviceSpec& sheet,
                               Queueing queueing) {
  std::array<LaunchSum, kKernelKinds> by_kind;
  for (const KernelLaunch& launch : launches) {
    by_kind[static_cast<size_t>(launch.kind)].Add(launch, sheet, queueing);
  }
  std::vector<KindSum> sums;
  for (size_t kind = 0; kind < by_kind.size(); ++kind) {
    if (by_kind[kind].launches > 0) sums.push_back({static_cast<KernelKind>(kind), by_kind[kind]});
  }
  std::stable_sort(sums.begin(), sums.end(), [](const KindSum& a, const KindSum& b) {
    return a.sum.expected_seconds > b.sum.expected_seconds;
  });
  return sums;
}

std::vector<LayerGroup> GroupLayers(const StepLaunches& step, const DeviceSpec& sheet,
                                    Queueing queueing) {
  std::vector<LayerGroup> groups;
  for (const LayerLaunches& layer : step.layers) {
    const LayerGroup group = {.name = layer.name,
                              .forward = Sum(layer.forward, sheet, queueing),
                              .input_grad = Sum(layer.input_grad, sheet, queueing),
                              .weight_grad = Sum(layer.weight_grad, sheet, queueing)};
    if (!groups.empty() && SameWork(groups.back(), group)) {
      ++groups.back().layers;
    } else {
      groups.push_back(group);
    }
  }
  for (LayerGroup& group : groups) group.name = NameOf(group.name, group.layers);
  return groups;
}

void SetExpectedSeconds(const StepLaunches& step, const DeviceSpec& sheet,
                        std::vector<LayerCost>* costs, Queueing queueing) {
  assert(costs->size() == step.layers.size());
  const auto seconds = [&](const Launches& launches) {
    return Sum(launches, sheet, queueing).expected_seconds;
  };
  for (size_t i = 0; i < costs->size(); ++i) {
    const LayerLaunches& layer = step.layers[i];
    LayerCost& cost = (*costs)[i];
    cost.forward_seconds = seconds(layer.forward);
    cost.input_grad_seconds = seconds(layer.input_grad);
    cost.weight_grad_seconds = seconds(layer.weight_grad);
    cost.restore_seconds = seconds(layer.restore);
    cost.update_seconds = seconds(layer.update) + seconds(layer.pack);
    cost.tied_update_seconds = seconds(layer.update) - seconds(layer.update_without_tied);
    cost.tied_sum_seconds = seconds(layer.sum_tied);
  }
}

}  // namespace sluice
