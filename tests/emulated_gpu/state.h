#ifndef SLUICE_TESTS_EMULATED_GPU_STATE_H_
#define SLUICE_TESTS_EMULATED_GPU_STATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/models/fake_device.h"

// What stands behind the handles of runtime.cc.
namespace sluice::emulation {

using Tape = std::vector<std::function<void()>>;

// A cudaStream_t.
struct StreamState {
  int gpu = 0;
  Stream stream = {};
  std::unique_ptr<Tape> captured = nullptr;  // while it is captured
  bool refused = false;                      // a call that ends the capture
  bool alive = true;
};

// A cudaEvent_t.
struct EventState {
  int gpu = 0;
  Event event = {};
  bool alive = true;
};

// A cudaGraph_t or cudaGraphExec_t: what was captured.
struct Graph {
  std::shared_ptr<const Tape> tape;
};

// Lives as long as the process, like a driver.
struct Gpu {
  explicit Gpu(int number);

  FakeDevice device;
  std::mutex mutex;  // guards what follows
  std::vector<std::unique_ptr<StreamState>> streams;
  std::vector<std::unique_ptr<EventState>> events;
  std::map<void*, DeviceMemory> memory;
};
Gpu& GpuAt(int number);

// The calling thread's.
int& CurrentGpu();
cudaError_t& LastError();
// Keeps an error as the last one; returns it.
cudaError_t Note(cudaError_t error);

cudaStream_t NewStream(int gpu);
// The current GPU's default stream for null. Ends the program where the handle was destroyed.
StreamState& StateOf(cudaStream_t stream);
EventState& StateOf(cudaEvent_t event);
// Has the stream do `work`, or keeps it while it is captured.
void Enqueue(StreamState& state, std::function<void()> work);
// For a call that a stream refuses while it is captured: the capture has failed.
cudaError_t Refuse(StreamState& state);
// Until all that is queued is done.
void Await(StreamState& state);
// The same for all streams of a GPU.
void AwaitAll(int gpu);

// Memory of a GPU, full of NaN; cudaErrorMemoryAllocation where there is none left.
// `on_device`: it is no memory of the host.
cudaError_t Keep(Gpu& gpu, absl::StatusOr<DeviceMemory> memory, bool on_device, void** pointer,
                 size_t bytes);
cudaError_t GiveBack(void* pointer);

void CountGraph();

// Faults that the environment asks for. EMULATED_GPU_COUNT: how many GPUs there are;
// EMULATED_GPU_DRIVER: the CUDA version (12040) that the driver knows; EMULATED_GPU_TAKEN: bytes
// that another process took after it was asked what is free; EMULATED_GPU_LOST_AFTER: so many looks
// at a GPU or a stream, then an error; EMULATED_GPU_LOST_FILE: a file with the number of a process to
// which every look is an error, once it is there.
template <class Number>
Number FaultOf(const char* name, Number otherwise) {
  const char* const asked = std::getenv(name);
  return asked == nullptr ? otherwise : static_cast<Number>(std::atoll(asked));
}
inline int64_t TakenBytes() { return FaultOf("EMULATED_GPU_TAKEN", int64_t{0}); }
bool IsLost();
// The same without counting: what was lost stays lost, and computes and copies nothing.
bool IsLostAlready();
// memset, which makes pages of the GPU's memory that are full of zeros only once they are written.
void Set(void* memory, int value, size_t bytes);

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_EMULATED_GPU_STATE_H_
