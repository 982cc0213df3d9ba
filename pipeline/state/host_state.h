#ifndef SLUICE_PIPELINE_STATE_HOST_STATE_H_
#define SLUICE_PIPELINE_STATE_HOST_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "models/device/device.h"
#include "models/spec/bfloat16.h"
#include "models/spec/dtype.h"

namespace sluice {

// Places in the host's memory where a rank's weights and optimizer state may be written before they
// go to the device that they live on: the tensors themselves where that is the host.
class HostState {
 public:
  // `stream` of `device` is where work of the rank is queued; both must outlive this object.
  HostState(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Where to write `bytes` bytes that belong at `tensor`, an array of the rank's arena. Two
  // parameters that share it have one place.
  void* Place(void* tensor, int64_t bytes);
  LowHalves Place(const LowHalves& low_halves);
  // Brings what was written to where it belongs.
  void Upload();

 private:
  struct Copy {
    void* tensor = nullptr;
    std::vector<std::byte> values;
  };

  Device& device_;
  const Stream stream_;
  std::deque<Copy> copies_;
};

// A tensor of a rank's arena, fp32 or bf16, whose low halves of some elements are kept where it is
// split.
struct HeldTensor {
  DType dtype = DType::kFloat32;
  const void* data = nullptr;
  LowHalves low_halves = {};
};

// Reads values of a rank's arena as fp32, piece by piece, in order: as they lie there, or through a
// buffer.
class HostReader {
 public:
  // As HostState.
  HostReader(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Elements first ... first + count - 1, in the host's memory until the next call. Of a split tensor
  // their low halves must be there.
  const float* Read(const HeldTensor& tensor, int64_t first, int64_t count);
  // Whether all that was read is what lay there. Unavailable where the device was lost meanwhile;
  // DeadlineExceeded.
  absl::Status Check(absl::Duration timeout);

 private:
  // Values in the host's memory, by way of `buffer` where they are not there.
  template <class T>
  const T* Fetch(const void* tensor, int64_t first, int64_t count, std::vector<T>* buffer);

  Device& device_;
  Stream stream_;
  std::vector<float> values_;
  std::vector<uint16_t> halves_, low_halves_;
};

// Writes fp32 values into tensors of a rank's arena, piece by piece, as HostReader reads them.
class HostWriter {
 public:
  // As HostState.
  HostWriter(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Elements first ... first + count - 1, rounded to the tensor's type. Of a split tensor, the low
  // halves of those that are kept. `values` may be used again afterwards.
  void Write(DType dtype, void* tensor, const LowHalves& low_halves, const float* values,
             int64_t first, int64_t count);

 private:
  void Bring(void* to, const void* from, size_t bytes) { device_.Copy(stream_, to, from, bytes); }

  Device& device_;
  Stream stream_;
  std::vector<uint16_t> halves_, low_halves_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_HOST_STATE_H_
