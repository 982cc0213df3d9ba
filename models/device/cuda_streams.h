#ifndef SLUICE_MODELS_DEVICE_CUDA_STREAMS_H_
#define SLUICE_MODELS_DEVICE_CUDA_STREAMS_H_

namespace sluice {

// Which device each stream (a cudaStream_t) belongs to. cudaStreamGetDevice says so too, but a
// stream that is being captured refuses it, and the refusal ends the capture (seen with CUDA 13.0
// on an H200).
void RememberStream(const void* stream, int ordinal);
void ForgetStream(const void* stream);  // before it is destroyed
// -1 where the stream was not remembered. Any thread.
int DeviceOfStream(const void* stream);

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_STREAMS_H_
