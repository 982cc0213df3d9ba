#ifndef SLUICE_PARTITIONER_PLANNING_ROOFLINE_ROOFLINE_H_
#define SLUICE_PARTITIONER_PLANNING_ROOFLINE_ROOFLINE_H_

#include <string>
#include <vector>

#include "models/kernels/record/kernel_launch.h"
#include "models/spec/layer_spec.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/layer_cost.h"
#include "partitioner/planning/roofline/kernel_rates.h"
#include "partitioner/planning/roofline/step_launches.h"

namespace sluice {

// What some launches are and take, together.
struct LaunchSum {
  int launches = 0;
  double flops = 0;
  double bytes = 0;
  double bound_seconds = 0;     // the roofline of each kernel
  double expected_seconds = 0;  // what each is expected to take, the gaps between them included

  void Add(const KernelLaunch& launch, const DeviceSpec& sheet, Queueing queueing);
};
LaunchSum Sum(const Launches& launches, const DeviceSpec& sheet,
              Queueing queueing = Queueing::kGraphs);

struct KindSum {
  KernelKind kind = KernelKind::kFill;
  LaunchSum sum;
};
// One for each kind that occurs; what is expected to take longest is first.
std::vector<KindSum> SumByKind(const Launches& launches, const DeviceSpec& sheet,
                               Queueing queueing = Queueing::kGraphs);

// Layers that follow each other and run the same.
struct LayerGroup {
  std::string name;  // "block 0-11"
  int layers = 1;
  // Of one of them, one micro-batch, without recomputation; W is that of a later micro-batch.
  LaunchSum forward, input_grad, weight_grad;
};
std::vector<LayerGroup> GroupLayers(const StepLaunches& step, const DeviceSpec& sheet,
                                    Queueing queueing = Queueing::kGraphs);

// Fills in the seconds of `costs`, which has an entry for each layer, as expected.
void SetExpectedSeconds(const StepLaunches& step, const DeviceSpec& sheet,
                        std::vector<LayerCost>* costs, Queueing queueing = Queueing::kGraphs);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ROOFLINE_ROOFLINE_H_
