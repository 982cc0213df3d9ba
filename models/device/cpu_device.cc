#include <cstring>

#include "models/device/device.h"
#include "models/device/host_memory.h"

namespace sluice {
namespace {

// Nothing is queued, so there is nothing to order or to wait for.
class Cpu : public Device {
 public:
  std::string name() const override { return "cpu"; }
  bool queues() const override { return false; }
  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) override {
    return AllocateHostMemory(bytes);
  }
  absl::StatusOr<DeviceMemory> AllocateShared(int64_t bytes) override {
    return AllocateHostMemory(bytes);
  }
  absl::StatusOr<Stream> NewStream() override { return Stream{}; }
  absl::StatusOr<Event> NewEvent() override { return Event{}; }
  void Record(Event, Stream) override {}
  void Wait(Stream, Event) override {}
  bool Passed(Event) override { return true; }
  absl::Duration Elapsed(Event, Event) override { return absl::ZeroDuration(); }
  void Copy(Stream, void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  absl::Status Synchronize(Stream, Instant) override { return absl::OkStatus(); }
};

}  // namespace

Device& CpuDevice() {
  static Cpu cpu;
  return cpu;
}

}  // namespace sluice
