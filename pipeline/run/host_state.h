#ifndef SLUICE_PIPELINE_RUN_HOST_STATE_H_
#define SLUICE_PIPELINE_RUN_HOST_STATE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "models/device/device.h"

namespace sluice {

// Places in the host's memory where a rank's weights and optimizer state may be written before they
// go to the device that they live on: the tensors themselves where that is the host.
class HostState {
 public:
  // `stream` of `device` is where work of the rank is queued; both must outlive this object.
  HostState(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Where to write `count` values that belong at `tensor`, an array of the rank's arena.
  float* Place(float* tensor, int64_t count);
  // Brings what was written to where it belongs.
  void Upload();

 private:
  struct Copy {
    float* tensor = nullptr;
    std::vector<float> values;
  };

  Device& device_;
  const Stream stream_;
  std::deque<Copy> copies_;
};

// Reads values of a rank's arena, piece by piece, in order: as they lie there, or through a buffer.
class HostReader {
 public:
  // As HostState.
  HostReader(Device* device, Stream stream) : device_(*device), stream_(stream) {}

  // Values in the host's memory, until the next call.
  const float* Read(const float* tensor, int64_t count);

 private:
  Device& device_;
  Stream stream_;
  std::vector<float> values_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_HOST_STATE_H_
