#ifndef SLUICE_MODELS_DEVICE_CUDA_FAILURE_H_
#define SLUICE_MODELS_DEVICE_CUDA_FAILURE_H_

#include "absl/status/status.h"

namespace sluice {

// The first failure of work queued on a device, kept while the device is open. Launches of kernels
// do not know the Device, only the number of the thread's current CUDA device, so the open devices
// are found by that number.
class CudaFailure {
 public:
  // For CUDA's device `ordinal`, until this object is destroyed.
  explicit CudaFailure(int ordinal);
  ~CudaFailure();
  CudaFailure(const CudaFailure&) = delete;
  CudaFailure& operator=(const CudaFailure&) = delete;

  // OK where nothing has failed.
  absl::Status first() const;

  // Tells every living object of `ordinal`; it is no error if there is none. Any thread.
  static void NoteForDevice(int ordinal, const absl::Status& failure);

 private:
  const int ordinal_;
  absl::Status first_;  // guarded by the mutex of all open devices
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_FAILURE_H_
