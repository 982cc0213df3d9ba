#ifndef SLUICE_MODELS_DEVICE_CUDA_STREAMS_H_
#define SLUICE_MODELS_DEVICE_CUDA_STREAMS_H_

#include <cuda_runtime_api.h>

namespace sluice {

// Which device each stream belongs to. cudaStreamGetDevice says so too, but a stream that is being
// captured refuses it, and the refusal ends the capture (seen with CUDA 13.0 on an H200).
void RememberStream(cudaStream_t stream, int ordinal);
void ForgetStream(cudaStream_t stream);
// -1 where the stream was not remembered. Any thread.
int DeviceOf(cudaStream_t stream);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_STREAMS_H_
