#ifndef SLUICE_TESTS_PIPELINE_FAKE_RUN_H_
#define SLUICE_TESTS_PIPELINE_FAKE_RUN_H_

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

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_FAKE_RUN_H_
