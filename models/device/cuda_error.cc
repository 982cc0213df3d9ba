#include "models/device/cuda_error.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/device/cuda_failure.h"
#include "models/device/cuda_streams.h"

namespace sluice {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
      return absl::StatusCode::kUnavailable;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary:
    case cudaErrorNoKernelImageForDevice:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::Status(CodeOf(error), absl::StrCat(what, ": ", cudaGetErrorString(error), " (",
                                                  cudaGetErrorName(error), ")"));
}

std::string CudaVersionName(int version) {
  return absl::StrFormat("%d.%d", version / 1000, version % 1000 / 10);
}

void NoteCudaFailure(const absl::Status& status) {
  if (status.ok()) return;
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess) ordinal = 0;
  CudaFailure::NoteForDevice(ordinal, status);
}

void NoteLastCudaError(absl::string_view what) {
  const cudaError_t error = cudaGetLastError();
  // CUDA reports this after a query of a stream that is still busy; it is no error.
  if (error == cudaSuccess || error == cudaErrorNotReady) return;
  NoteCudaFailure(CudaStatus(error, what));
}

void UseDeviceOf(cudaStream_t stream) {
  int current = 0, wanted = DeviceOfStream(stream);
  if (wanted < 0 && cudaStreamGetDevice(stream, &wanted) != cudaSuccess) return;
  if (cudaGetDevice(&current) == cudaSuccess && current == wanted) return;
  cudaSetDevice(wanted);
}

}  // namespace sluice
