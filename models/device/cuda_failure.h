#ifndef SLUICE_MODELS_DEVICE_CUDA_FAILURE_H_
#define SLUICE_MODELS_DEVICE_CUDA_FAILURE_H_

#include "absl/status/status.h"

namespace sluice {

// The first failure of work queued on a device, for as long as the device is open. Launches of
// kernels know no Device, only which of CUDA's devices is the thread's current one, so the open
// ones are found by that number.
class CudaFailure {
 public:
  // Of CUDA's device `ordinal`, from now until this object goes.
  explicit CudaFailure(int ordinal);
  ~CudaFailure();
  CudaFailure(const CudaFailure&) = delete;
  CudaFailure& operator=(const CudaFailure&) = delete;

  // OK where nothing has failed.
  absl::Status first() const;

  // Tells every object of `ordinal` that lives; none is no error. Any thread.
  static void NoteForDevice(int ordinal, const absl::Status& failure);

 private:
  const int ordinal_;
  absl::Status first_;  // guarded by the mutex of all open devices
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_CUDA_FAILURE_H_
