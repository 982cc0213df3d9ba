#ifndef SLUICE_PARTITIONER_WORKLOAD_H_
#define SLUICE_PARTITIONER_WORKLOAD_H_

#include <vector>

#include "models/spec/layer_spec.h"
#include "partitioner/machines.h"

namespace sluice {

// What a step has to compute and the devices that share it, whatever the schedule and the stages.
// Lower bounds that hold for every plan need no more than this.
struct Workload {
  Machines machines;
  int devices = 1;
  int micro_batches = 1;  // per step
  // What a stage may recompute.
  std::vector<Recompute> policies = {Recompute::kNone};
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_WORKLOAD_H_
