#include "models/device/cuda_streams.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace sluice {
namespace {

struct Streams {
  std::mutex mutex;
  std::unordered_map<const void*, int> devices;
  // Counts what was forgotten: a handle may come back as a stream of another device.
  std::atomic<uint64_t> forgotten = 0;
};

Streams& AllStreams() {
  static auto* const streams = new Streams;  // outlives every thread
  return *streams;
}

}  // namespace

void RememberStream(const void* stream, int ordinal) {
  Streams& all = AllStreams();
  const std::lock_guard lock(all.mutex);
  all.devices[stream] = ordinal;
}

void ForgetStream(const void* stream) {
  Streams& all = AllStreams();
  const std::lock_guard lock(all.mutex);
  all.devices.erase(stream);
  ++all.forgotten;
}

// A thread launches nearly all of its kernels on one stream, so it keeps the last answer.
int DeviceOfStream(const void* stream) {
  struct Answer {
    const void* stream = nullptr;
    uint64_t forgotten = 0;
    int ordinal = -1;
  };
  static thread_local Answer last;
  Streams& all = AllStreams();
  if (last.ordinal >= 0 && last.stream == stream && last.forgotten == all.forgotten.load())
    return last.ordinal;
  const std::lock_guard lock(all.mutex);
  const auto found = all.devices.find(stream);
  if (found == all.devices.end()) return -1;
  last = {.stream = stream, .forgotten = all.forgotten.load(), .ordinal = found->second};
  return last.ordinal;
}

}  // namespace sluice
