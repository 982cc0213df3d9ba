#ifndef SLUICE_PIPELINE_RUN_HOST_STATE_H_
#define SLUICE_PIPELINE_RUN_HOST_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "models/device/device.h"
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

// Reads values of a rank's arena as fp32, piece by piece, in order: as they lie there, or through a
// buffer.
class HostReader {
 public:
  // As HostState.
  HostReader(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Elements first ... first + count - 1 of a tensor of `dtype` (fp32 or bf16), in the host's memory
  // until the next call.
  const float* Read(DType dtype, const void* tensor, int64_t first, int64_t count);

 private:
  Device& device_;
  Stream stream_;
  std::vector<float> values_;
  std::vector<uint16_t> halves_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_HOST_STATE_H_
