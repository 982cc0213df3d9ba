#ifndef SLUICE_MODELS_DEVICE_DEVICE_H_
#define SLUICE_MODELS_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "models/device/instant.h"

namespace sluice {

// A queue of work that a device does in order. The CPU's is the calling thread: its work is done
// when a call returns, and the handle is unused.
struct Stream {
  void* handle = nullptr;
};

// A moment in a stream's work.
struct Event {
  void* handle = nullptr;
};

// Work that comes again and again, as a device remembers it; null: not at all yet. Lives as long as
// the device.
struct Recording {
  void* handle = nullptr;
};

// Memory of a device, given back when this goes away, after all queued work that may touch it.
class DeviceMemory {
 public:
  using Free = std::function<void(std::byte*)>;
  DeviceMemory() = default;
  DeviceMemory(std::byte* data, int64_t bytes, Free free)
      : bytes_(bytes), data_(data, std::move(free)) {}

  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> data_{nullptr, [](std::byte*) {}};
};

// Where tensors lie and kernels run. Every function may be called by any thread. Work is queued and
// done later, in order within a stream, in no order between streams but that of events; what it
// touches must stay until then. Streams and events live as long as their device.
//
// What goes wrong with queued work is reported by the next Synchronize, by every one from then on.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string name() const = 0;
  // False where work is done when the call that asks for it returns.
  virtual bool queues() const = 0;

  // Zeroed, aligned to 256 bytes. ResourceExhausted says what was asked for and what there is.
  virtual absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) = 0;
  // Memory that host and device both read and write at the same address: for what is small. The
  // host sees what queued work has written after a Synchronize.
  virtual absl::StatusOr<DeviceMemory> AllocateShared(int64_t bytes) = 0;

  // Bytes that Allocate could still give; -1 where the device does not say.
  virtual int64_t AvailableBytes() const { return -1; }

  virtual absl::StatusOr<Stream> NewStream() = 0;
  virtual absl::StatusOr<Event> NewEvent() = 0;
  // The event is now the end of what is queued on `stream` so far. One that is recorded again is
  // another moment; waits already queued are still for the former one.
  virtual void Record(Event event, Stream stream) = 0;
  // What is queued on `stream` from now on is done after the event's moment; at once where it was
  // never recorded.
  virtual void Wait(Stream stream, Event event) = 0;
  // Whether the event's moment has passed, without waiting; true where it was never recorded.
  virtual bool Passed(Event event) = 0;
  // Between two recorded moments that a Synchronize has seen pass.
  virtual absl::Duration Elapsed(Event from, Event to) = 0;

  // Has `queue` queue its work on `stream`, or queues again what it did before with this recording:
  // a device may do so at less cost. `queue` asks for the same work each time, on this stream, with
  // no events and no ordinary memory of the host.
  virtual void Repeat(Stream /*stream*/, Recording* /*recording*/,
                      absl::FunctionRef<void()> queue) {
    queue();
  }

  // Names what the calling thread queues from here to PopRange, for profilers.
  virtual void PushRange(const char* /*name*/) {}
  virtual void PopRange() {}

  // Between any two of this device's memory, shared memory, and memory of devices that it reaches.
  // With ordinary memory of the host the call returns once that may be used again.
  virtual void Copy(Stream stream, void* to, const void* from, size_t bytes) = 0;

  // Returns once all that is queued on `stream` is done. DeadlineExceeded; Unavailable where the
  // device is lost.
  virtual absl::Status Synchronize(Stream stream, Instant deadline) = 0;
};

// The machine's memory and the calling thread.
Device& CpuDevice();

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_DEVICE_H_
