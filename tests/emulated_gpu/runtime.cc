// The part of CUDA's runtime API that this project uses.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/gpus.h"
#include "tests/emulated_gpu/state.h"

using namespace sluice::emulation;  // NOLINT(google-build-using-namespace): CUDA's are C functions

namespace {
constexpr int kVersion = 13000;
}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  *version = FaultOf("EMULATED_GPU_DRIVER", kVersion);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "as an emulated GPU has it";
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorECCUncorrectable:
      return "cudaErrorECCUncorrectable";
    default:
      return "another error";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(LastError(), cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = FaultOf("EMULATED_GPU_COUNT", kGpus);
  if (FaultOf("EMULATED_GPU_DRIVER", kVersion) < kVersion) return Note(cudaErrorInsufficientDriver);
  return *count == 0 ? Note(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = CurrentGpu();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kGpus) return Note(cudaErrorInvalidDevice);
  CurrentGpu() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  if (IsLost()) return Note(cudaErrorECCUncorrectable);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Emulated");
  properties->major = 9;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 163 * 1024;  // of capability 8.0, the least of those that this project runs on
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<size_t>(length), "0000:00:%02d.0", device);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  std::vector<StreamState*> streams;
  {
    Gpu& gpu = GpuAt(CurrentGpu());
    const std::lock_guard lock(gpu.mutex);
    for (const auto& stream : gpu.streams) streams.push_back(stream.get());
  }
  for (StreamState* stream : streams) Await(*stream);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  Gpu& gpu = GpuAt(CurrentGpu());
  return Keep(gpu, gpu.device.Allocate(static_cast<int64_t>(bytes)), true, pointer, bytes);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  Gpu& gpu = GpuAt(CurrentGpu());
  return Keep(gpu, gpu.device.AllocateShared(static_cast<int64_t>(bytes)), false, pointer, bytes);
}

cudaError_t cudaFree(void* pointer) { return GiveBack(pointer); }
cudaError_t cudaFreeHost(void* pointer) { return GiveBack(pointer); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const sluice::FakeDevice& device = GpuAt(CurrentGpu()).device;
  *free = static_cast<size_t>(device.AvailableBytes() + TakenBytes());
  *total = *free + static_cast<size_t>(device.allocated());
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  Enqueue(StateOf(stream), [=] { Set(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (IsLostAlready()) return Note(cudaErrorECCUncorrectable);
  StreamState& state = StateOf(stream);
  if (state.captured != nullptr) {
    Enqueue(state, [=] { std::memcpy(to, from, bytes); });
  } else {
    GpuAt(state.gpu).device.Copy(state.stream, to, from, bytes);  // waits for ordinary memory
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = NewStream(CurrentGpu());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  StateOf(stream).alive = false;
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  StreamState& state = StateOf(stream);
  if (state.captured != nullptr) return Refuse(state);
  *device = state.gpu;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Await(StateOf(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (IsLost()) return Note(cudaErrorECCUncorrectable);
  StreamState& state = StateOf(stream);
  if (state.captured != nullptr) return Refuse(state);
  const absl::Status done =
      GpuAt(state.gpu).device.Synchronize(state.stream, sluice::Instant::InfinitePast());
  return done.ok() ? cudaSuccess : Note(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  StreamState& state = StateOf(stream);
  if (state.captured != nullptr) return Refuse(state);
  GpuAt(state.gpu).device.Wait(state.stream, StateOf(event).event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  Gpu& gpu = GpuAt(CurrentGpu());
  const sluice::Event made = *gpu.device.NewEvent();
  const std::lock_guard lock(gpu.mutex);
  gpu.events.push_back(
      std::make_unique<EventState>(EventState{.gpu = CurrentGpu(), .event = made}));
  *event = reinterpret_cast<cudaEvent_t>(gpu.events.back().get());
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  StateOf(event).alive = false;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  StreamState& state = StateOf(stream);
  if (state.captured != nullptr) return Refuse(state);
  if (state.gpu != StateOf(event).gpu) return Note(cudaErrorInvalidResourceHandle);
  GpuAt(state.gpu).device.Record(StateOf(event).event, state.stream);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const EventState& state = StateOf(event);
  return GpuAt(state.gpu).device.Passed(state.event) ? cudaSuccess : Note(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  sluice::FakeDevice& device = GpuAt(StateOf(from).gpu).device;
  if (!device.Passed(StateOf(from).event) || !device.Passed(StateOf(to).event)) {
    return Note(cudaErrorNotReady);
  }
  *milliseconds = static_cast<float>(
      absl::ToDoubleMilliseconds(device.Elapsed(StateOf(from).event, StateOf(to).event)));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  StreamState& state = StateOf(stream);
  state.captured = std::make_unique<Tape>();
  state.refused = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::unique_ptr<Tape> tape = std::move(StateOf(stream).captured);
  if (StateOf(stream).refused) {
    *graph = nullptr;
    return Note(cudaErrorStreamCaptureInvalidated);
  }
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::shared_ptr<const Tape>(std::move(tape))});
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  CountGraph();
  Enqueue(StateOf(stream), [tape = reinterpret_cast<Graph*>(graph)->tape] {
    for (const std::function<void()>& work : *tape) work();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
