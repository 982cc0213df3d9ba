#ifndef SLUICE_MODELS_DEVICE_CUDA_ERROR_H_
#define SLUICE_MODELS_DEVICE_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// `what` says what was tried. ResourceExhausted: out of memory; Unavailable: the device is lost;
// FailedPrecondition: no device or driver to begin with; Internal: everything else.
absl::Status CudaStatus(cudaError_t error, absl::string_view what);

// "12.4", from CUDA's 12040.
std::string CudaVersionName(int version);

// Notes what has gone wrong with work queued on the calling thread's current device, for calls that
// return nothing: the Synchronize of that device reports the first failure noted since the device
// was opened. OK is not noted. Any thread.
void NoteCudaFailure(const absl::Status& status);

// Notes the calling thread's last CUDA error, if any, as that of `what`: call after a launch.
void NoteLastCudaError(absl::string_view what);

// Makes the stream's device the calling thread's current one, as launches need.
void UseDeviceOf(cudaStream_t stream);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_ERROR_H_
