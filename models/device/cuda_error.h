#ifndef SLUICE_MODELS_DEVICE_CUDA_ERROR_H_
#define SLUICE_MODELS_DEVICE_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A status for `error`; `what` says what was tried. ResourceExhausted: out of memory; Unavailable:
// the device is lost; FailedPrecondition: there is no device or driver; Internal: everything else.
absl::Status CudaStatus(cudaError_t error, absl::string_view what);

// "12.4", from CUDA's 12040.
std::string CudaVersionName(int version);

// Records an error of work queued on the calling thread's current device, for calls that return
// nothing: the next Synchronize of that device reports the first error since the device was opened.
// OK is not recorded. Any thread.
void NoteCudaFailure(const absl::Status& status);

// Records the calling thread's last CUDA error, if any, as one of `what`: call it after a launch.
void NoteLastCudaError(absl::string_view what);

// Makes the stream's device the calling thread's current one, as launches need.
void UseDeviceOf(cudaStream_t stream);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_ERROR_H_
