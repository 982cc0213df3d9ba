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

// A point in a stream's work.
struct Event {
  void* handle = nullptr;
};

// Repeated work, as a device remembers it; null: not yet recorded. Lives as long as the device.
struct Recording {
  void* handle = nullptr;
};

// Memory of a device, freed when this object is destroyed, after all queued work that may use it.
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

// Where tensors are and kernels run. Every function may be called by any thread. Work is queued and
// done later, in order within a stream; between streams only events order it. The memory that
// queued work uses must stay allocated until it is done. Streams and events live as long as their
// device.
//
// Errors of queued work are reported by the next Synchronize, and by every one after it.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual std::string name() const = 0;
  // The same without the number: "NVIDIA H200".
  std::string kind() const {
    const std::string whole = name();
    return whole.substr(whole.find(' ') + 1);
  }
  // False where work is done when the call that asks for it returns.
  virtual bool queues() const = 0;

  // Zeroed, aligned to 256 bytes. ResourceExhausted says how much was asked for and how much is
  // free.
  virtual absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) = 0;
  // Memory that host and device both read and write at the same address: for small objects. The
  // host sees what queued work has written after a Synchronize.
  virtual absl::StatusOr<DeviceMemory> AllocateShared(int64_t bytes) = 0;

  // Bytes that Allocate could still give; -1 where the device does not say.
  virtual int64_t AvailableBytes() const { return -1; }

  virtual absl::StatusOr<Stream> NewStream() = 0;
  virtual absl::StatusOr<Event> NewEvent() = 0;
  // The event now marks the end of the work queued on `stream` so far. Recording it again moves it;
  // waits that are already queued still wait for its former point.
  virtual void Record(Event event, Stream stream) = 0;
  // Work queued on `stream` from now on starts after the event's point; at once if the event was
  // never recorded.
  virtual void Wait(Stream stream, Event event) = 0;
  // Whether the work before the event is done, without waiting; true where it was never recorded.
  virtual bool Passed(Event event) = 0;
  // Seconds between two recorded events whose work a Synchronize has seen done.
  virtual absl::Duration Elapsed(Event from, Event to) = 0;

  // Calls `queue` to queue work on `stream`, or queues again the work of an earlier call with this
  // recording: a device may do so at less cost. `queue` must queue the same work each time, on this
  // stream, without events and without the host's ordinary memory.
  virtual void Repeat(Stream /*stream*/, Recording* /*recording*/,
                      absl::FunctionRef<void()> queue) {
    queue();
  }

  // Gives profilers a name for the work that the calling thread queues from here to PopRange.
  virtual void PushRange(const char* /*name*/) {}
  virtual void PopRange() {}

  // Copies between any two of this device's memory, shared memory, and memory of devices that it
  // can access. For the host's ordinary memory the call returns once that memory may be used again.
  virtual void Copy(Stream stream, void* to, const void* from, size_t bytes) = 0;

  // Returns once all work queued on `stream` is done. DeadlineExceeded; Unavailable where the
  // device is lost.
  virtual absl::Status Synchronize(Stream stream, Instant deadline) = 0;
};

// The machine's memory and the calling thread: a device that does work at once.
Device& CpuDevice();

}  // namespace sluice

#endif  // SLUICE_MODELS_DEVICE_DEVICE_H_
