// Checks what must hold before a device is used, and says what to do where it does not.
#include "models/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/device/cuda_error.h"
#include "models/device/cuda_runtime_device.h"

namespace sluice {
namespace {

constexpr int kLeastMajor = 8;  // the first with bf16 on tensor cores and cp.async

absl::Status CheckDriver(int* count) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);  // 0 where there is no driver
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    return absl::FailedPreconditionError(
        "there is no NVIDIA driver on this machine (no libcuda.so.1)");
  }
  const cudaError_t error = cudaGetDeviceCount(count);
  if (error == cudaErrorInsufficientDriver) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the NVIDIA driver is too old: it knows CUDA up to %s, this program is made with %s",
        CudaVersionName(driver), CudaVersionName(runtime)));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && *count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return absl::FailedPreconditionError(absl::StrCat(
        "there is no GPU that CUDA can use",
        visible == nullptr ? "" : absl::StrCat(" (CUDA_VISIBLE_DEVICES=", visible, ")")));
  }
  return CudaStatus(error, "looking for GPUs");
}

}  // namespace

int CudaDeviceCount() {
  int count = 0;
  return CheckDriver(&count).ok() ? count : 0;
}

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int ordinal,
                                                       const CudaDeviceOptions& options) {
  int count = 0;
  if (absl::Status status = CheckDriver(&count); !status.ok()) return status;
  if (ordinal < 0 || ordinal >= count) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "there is no GPU %d: CUDA shows %d, numbered from 0 (CUDA_VISIBLE_DEVICES may hide some)",
        ordinal, count));
  }
  cudaDeviceProp properties;
  const std::string what = absl::StrCat("opening GPU ", ordinal);
  if (absl::Status status = CudaStatus(cudaGetDeviceProperties(&properties, ordinal), what);
      !status.ok()) {
    return status;
  }
  if (properties.major < kLeastMajor) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "GPU %d, %s, has compute capability %d.%d; %d.0 is the least that is served", ordinal,
        properties.name, properties.major, properties.minor, kLeastMajor));
  }
  // The first call that needs the device creates its context: errors of the device show here.
  absl::Status status = CudaStatus(cudaSetDevice(ordinal), what);
  if (status.ok()) status = CudaStatus(cudaFree(nullptr), what);
  if (!status.ok()) return status;
  return MakeCudaDevice(ordinal, absl::StrCat("cuda:", ordinal, " ", properties.name), options);
}

}  // namespace sluice
