#include "models/device/cuda_failure.h"

#include <mutex>
#include <vector>

namespace sluice {
namespace {

// The failures of all devices that are open.
struct OpenDevices {
  std::mutex mutex;
  std::vector<CudaFailure*> failures;
};

OpenDevices& AllOpen() {
  static auto* const open = new OpenDevices;  // outlives every thread
  return *open;
}

}  // namespace

CudaFailure::CudaFailure(int ordinal) : ordinal_(ordinal) {
  OpenDevices& open = AllOpen();
  const std::lock_guard lock(open.mutex);
  open.failures.push_back(this);
}

CudaFailure::~CudaFailure() {
  OpenDevices& open = AllOpen();
  const std::lock_guard lock(open.mutex);
  std::erase(open.failures, this);
}

absl::Status CudaFailure::first() const {
  const std::lock_guard lock(AllOpen().mutex);
  return first_;
}

void CudaFailure::NoteForDevice(int ordinal, const absl::Status& failure) {
  OpenDevices& open = AllOpen();
  const std::lock_guard lock(open.mutex);
  for (CudaFailure* device : open.failures) {
    if (device->ordinal_ == ordinal) device->first_.Update(failure);
  }
}

}  // namespace sluice
