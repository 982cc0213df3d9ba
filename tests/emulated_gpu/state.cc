#include "tests/emulated_gpu/state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/emulated_gpu/gpus.h"
#include "tests/models/kernels/cuda_emulation/on_stream.h"
#include "tests/sanitizers.h"

namespace sluice::emulation {
namespace {

constexpr int kPoison = 0xFF;  // NaN in fp32 and bf16
constexpr int64_t kMemory = int64_t{4} << 30;

std::atomic<int64_t> launched_graphs = 0;

[[noreturn]] void Stop(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s\n", what);
  std::abort();
}

// Most large memory of a small run is workspaces that it hardly uses: such a page is its own only once
// it has been written, and reads as poison before. Not where a sanitizer looks for what is beside it.
constexpr size_t kPoisonBytes = size_t{1} << 20;

bool IsMapped(size_t bytes) { return bytes >= kPoisonBytes && !kSanitized; }

// A file in memory, full of poison.
int PoisonFile() {
  static const int file = [] {
    const int made = memfd_create("poison", MFD_CLOEXEC);
    const std::vector<char> poison(kPoisonBytes, static_cast<char>(kPoison));
    if (made < 0 || write(made, poison.data(), poison.size()) != std::ssize(poison))
      Stop("there is no memory for a file");
    return made;
  }();
  return file;
}

// Sizes of what is mapped, by address.
struct Mappings {
  std::mutex mutex;
  std::map<void*, size_t> sizes;
};

Mappings& AllMappings() {
  static auto* const mappings = new Mappings;
  return *mappings;
}

void* Map(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (!IsMapped(size)) return nullptr;
  void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  for (size_t at = 0; at < size; at += kPoisonBytes) {
    const void* const piece =
        mmap(static_cast<char*>(memory) + at, std::min(kPoisonBytes, size - at),
             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, PoisonFile(), 0);
    if (piece == MAP_FAILED) Stop("memory cannot be mapped");
  }
  Mappings& all = AllMappings();
  const std::lock_guard lock(all.mutex);
  all.sizes[memory] = size;
  return memory;
}

void Unmap(void* memory) {
  Mappings& all = AllMappings();
  const std::lock_guard lock(all.mutex);
  const auto mapped = all.sizes.find(memory);
  munmap(memory, mapped->second);
  all.sizes.erase(mapped);
}

bool IsInMapping(const void* memory) {
  Mappings& all = AllMappings();
  const std::lock_guard lock(all.mutex);
  auto behind = all.sizes.upper_bound(const_cast<void*>(memory));
  if (behind == all.sizes.begin()) return false;
  --behind;
  return static_cast<const char*>(memory) < static_cast<char*>(behind->first) + behind->second;
}

}  // namespace

// Whole pages of zeros are the kernel's until they are written, as those of poison are.
void Set(void* memory, int value, size_t bytes) {
  auto* const begin = static_cast<char*>(memory);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(memory) % page) % page;
  if (value != 0 || !IsMapped(bytes) || !IsInMapping(memory)) {
    std::memset(begin, value, bytes);
    return;
  }
  const size_t pages = (bytes - before) / page * page;
  std::memset(begin, 0, before);
  std::memset(begin + before + pages, 0, bytes - before - pages);
  if (mmap(begin + before, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS,
           -1, 0) == MAP_FAILED) {
    Stop("memory cannot be mapped");
  }
}

Gpu::Gpu(int number)
    : device({.seed = static_cast<uint64_t>(number) + 1,
              .longest_pause = absl::Microseconds(50),
              .memory = kMemory - TakenBytes(),
              .allocator = {.allocate = Map, .free = Unmap},
              .zeroes = false}) {}

namespace {
std::atomic<int64_t> looks = 0;
}  // namespace

bool IsLost() {
  ++looks;
  return IsLostAlready();
}

bool IsLostAlready() {
  if (looks > FaultOf("EMULATED_GPU_LOST_AFTER", INT64_MAX)) return true;
  const char* const path = std::getenv("EMULATED_GPU_LOST_FILE");
  if (path == nullptr) return false;
  int64_t process = 0;
  return std::ifstream(path) >> process && process == getpid();
}

Gpu& GpuAt(int number) {
  static auto* const gpus = new std::array<Gpu, kGpus>{Gpu(0), Gpu(1)};
  return (*gpus)[static_cast<size_t>(number)];
}

int& CurrentGpu() {
  static thread_local int current = 0;
  return current;
}

cudaError_t& LastError() {
  static thread_local cudaError_t last = cudaSuccess;
  return last;
}

cudaError_t Note(cudaError_t error) {
  if (error != cudaSuccess) LastError() = error;
  return error;
}

cudaStream_t NewStream(int gpu) {
  Gpu& of = GpuAt(gpu);
  const Stream stream = *of.device.NewStream();
  const std::lock_guard lock(of.mutex);
  of.streams.push_back(std::make_unique<StreamState>(StreamState{.gpu = gpu, .stream = stream}));
  return reinterpret_cast<cudaStream_t>(of.streams.back().get());
}

StreamState& StateOf(cudaStream_t stream) {
  if (stream == nullptr) {
    static std::array<std::once_flag, kGpus> once;
    static std::array<cudaStream_t, kGpus> defaults;
    const auto gpu = static_cast<size_t>(CurrentGpu());
    std::call_once(once[gpu], [gpu] { defaults[gpu] = NewStream(static_cast<int>(gpu)); });
    stream = defaults[gpu];
  }
  auto& state = *reinterpret_cast<StreamState*>(stream);
  if (!state.alive) Stop("a stream is used that was destroyed");
  return state;
}

EventState& StateOf(cudaEvent_t event) {
  auto& state = *reinterpret_cast<EventState*>(event);
  if (!state.alive) Stop("an event is used that was destroyed");
  return state;
}

void Enqueue(StreamState& state, std::function<void()> work) {
  if (state.captured != nullptr) {
    state.captured->push_back(std::move(work));
  } else {
    FakeDevice::Queue(state.stream, std::move(work));
  }
}

cudaError_t Refuse(StreamState& state) {
  state.refused = true;
  return Note(cudaErrorStreamCaptureUnsupported);
}

void AwaitAll(int gpu) {
  Gpu& of = GpuAt(gpu);
  std::vector<StreamState*> streams;
  {
    const std::lock_guard lock(of.mutex);
    for (const auto& stream : of.streams) streams.push_back(stream.get());
  }
  for (StreamState* stream : streams) {
    if (stream->alive && stream->captured == nullptr) Await(*stream);
  }
}

void Await(StreamState& state) {
  if (state.captured != nullptr) Stop("a stream is awaited that is being captured");
  (void)GpuAt(state.gpu).device.Synchronize(state.stream, Instant::InfiniteFuture());
}

cudaError_t Keep(Gpu& gpu, absl::StatusOr<DeviceMemory> memory, bool on_device, void** pointer,
                 size_t bytes) {
  if (!memory.ok()) return Note(cudaErrorMemoryAllocation);
  *pointer = memory->data();
  if (!on_device || !IsMapped(bytes)) std::memset(*pointer, kPoison, bytes);
  const std::lock_guard lock(gpu.mutex);
  gpu.memory[*pointer] = *std::move(memory);
  return cudaSuccess;
}

cudaError_t GiveBack(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  for (int number = 0; number < kGpus; ++number) {
    Gpu& gpu = GpuAt(number);
    DeviceMemory gone;  // waits for the GPU, without the lock
    const std::lock_guard lock(gpu.mutex);
    const auto found = gpu.memory.find(pointer);
    if (found == gpu.memory.end()) continue;
    gone = std::move(found->second);
    gpu.memory.erase(found);
    return cudaSuccess;
  }
  return Note(cudaErrorInvalidValue);
}

// Shared memory of emulated blocks is static: one kernel at a time.
void OnStream(void* stream, const std::function<void()>& work) {
  static auto* const one_kernel = new std::mutex;
  StreamState& state = StateOf(static_cast<cudaStream_t>(stream));
  if (state.gpu != CurrentGpu()) {
    (void)Note(cudaErrorInvalidResourceHandle);
    return;
  }
  Enqueue(state, [work] {
    if (IsLostAlready()) return;
    const std::lock_guard lock(*one_kernel);
    work();
  });
}

uint64_t launch_seed = 1;

int64_t AllocatedBytes(int gpu) { return GpuAt(gpu).device.allocated(); }
void CountGraph() { ++launched_graphs; }
int64_t LaunchedGraphs() { return launched_graphs; }

}  // namespace sluice::emulation
