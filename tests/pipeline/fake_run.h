#ifndef SLUICE_TESTS_PIPELINE_FAKE_RUN_H_
#define SLUICE_TESTS_PIPELINE_FAKE_RUN_H_

#include "comm/device_group.h"
#include "comm/nccl/nccl.h"
#include "pipeline/compile/replicas/tensor_edges.h"
#include "tests/models/fake_device.h"
#include "tests/pipeline/small_run.h"

namespace sluice {

// A SmallRun with the kernels of a FakeDevice.
inline RunRequest FakeRequest(const SmallRun& run) {
  RunRequest request = MakeRequest(run);
  request.kernels = &FakeKernels(run.master_weights);
  return request;
}

// Dies when the run does not compile: every SmallRun must.
inline RunPlan FakePlan(const SmallRun& run) { return *CompileRun(FakeRequest(run)); }

// A rank on a device of its process, joined to the others by `group` ...
inline RankDevice RankOnDevice(FakeDevice* device, int rank, DeviceGroup* group) {
  return {.device = device, .connect = [=](Stream stream, Communicator* world) {
            return absl::StatusOr<std::unique_ptr<Communicator>>(
                group->Join(rank, device, stream, world));
          }};
}
// ... or over NCCL, by the edges of `plan`.
inline RankDevice RankOverNccl(FakeDevice* device, int rank, const RunPlan& plan, NcclApi* nccl) {
  const NcclOptions options = {.nccl = nccl,
                               .ordinal = rank,
                               .edges = TensorEdges(plan),
                               .capacity = EdgeCapacity(plan),
                               .timeout = absl::Seconds(60),
                               .host = "a host"};
  return {.device = device,
          .connect = [=](Stream stream,
                         Communicator* world) -> absl::StatusOr<std::unique_ptr<Communicator>> {
            return ConnectNccl(options, world, device, stream);
          }};
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_FAKE_RUN_H_
