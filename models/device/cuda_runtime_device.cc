#include "models/device/cuda_runtime_device.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/device/cuda_error.h"
#include "models/device/cuda_failure.h"
#include "models/device/cuda_graph.h"
#include "models/device/cuda_streams.h"

namespace sluice {
namespace {

// A wait polls without sleep at first, since most waits are short, and then sleeps between polls.
constexpr absl::Duration kSpin = absl::Microseconds(50);
constexpr std::chrono::microseconds kNap{20};

cudaStream_t StreamOf(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t EventOf(Event event) { return static_cast<cudaEvent_t>(event.handle); }

// One bit for each device that this process has opened.
std::atomic<uint64_t>& Opened() {
  static std::atomic<uint64_t> opened = 0;
  return opened;
}
uint64_t BitOf(int ordinal) { return uint64_t{1} << (ordinal % 64); }

// Makes a device the calling thread's current one for the lifetime of this object: a thread whose
// kernels run on one GPU may queue copies on another. Afterwards it returns only to a device that
// this process has opened: a thread begins on device 0, and returning there would create a context
// of some hundred MiB on a GPU that another process may be using (cudaSetDevice creates one since
// CUDA 12).
class OnDevice {
 public:
  explicit OnDevice(int ordinal) : ordinal_(ordinal) {
    cudaGetDevice(&before_);
    if (before_ != ordinal_) cudaSetDevice(ordinal_);
  }
  ~OnDevice() {
    if (before_ != ordinal_ && (Opened().load() & BitOf(before_)) != 0) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const int ordinal_;
  int before_ = 0;
};

class CudaDevice : public Device {
 public:
  CudaDevice(int ordinal, std::string name, CudaDeviceOptions options)
      : ordinal_(ordinal), name_(std::move(name)), options_(std::move(options)), failure_(ordinal) {
    Opened().fetch_or(BitOf(ordinal));
  }

  ~CudaDevice() override {
    const OnDevice current(ordinal_);
    cudaDeviceSynchronize();  // streams may be destroyed only once they are empty
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    for (cudaStream_t stream : streams_) {
      ForgetStream(stream);
      cudaStreamDestroy(stream);
    }
  }

  std::string name() const override { return name_; }
  bool queues() const override { return true; }

  int64_t AvailableBytes() const override;
  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) override;
  absl::StatusOr<DeviceMemory> AllocateShared(int64_t bytes) override;
  absl::StatusOr<Stream> NewStream() override;
  absl::StatusOr<Event> NewEvent() override;

  void Record(Event event, Stream stream) override {
    Try([&] { return cudaEventRecord(EventOf(event), StreamOf(stream)); }, "recording an event");
  }
  void Wait(Stream stream, Event event) override {
    Try([&] { return cudaStreamWaitEvent(StreamOf(stream), EventOf(event)); },
        "making a stream wait");
  }
  bool Passed(Event event) override {
    const OnDevice current(ordinal_);
    const cudaError_t error = cudaEventQuery(EventOf(event));
    if (error != cudaSuccess) cudaGetLastError();
    return error != cudaErrorNotReady;  // errors are reported by Synchronize
  }
  absl::Duration Elapsed(Event from, Event to) override {
    float milliseconds = 0;
    Try([&] { return cudaEventElapsedTime(&milliseconds, EventOf(from), EventOf(to)); },
        "reading the time between events");
    return absl::Milliseconds(1) * static_cast<double>(milliseconds);
  }
  void Repeat(Stream stream, Recording* recording, absl::FunctionRef<void()> queue) override {
    if (!options_.graphs) return queue();
    CudaGraph& graph = GraphOf(recording);
    Try([&] { return graph.Run(StreamOf(stream), queue); }, "replaying a graph");
  }
  void PushRange(const char* name) override { nvtxRangePushA(name); }
  void PopRange() override { nvtxRangePop(); }
  void Copy(Stream stream, void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    Try([&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, StreamOf(stream)); },
        "copying");
  }
  absl::Status Synchronize(Stream stream, Instant deadline) override;

 private:
  std::string Said(absl::string_view what) const { return absl::StrCat(name_, ": ", what); }

  // For calls that return nothing: an error is recorded for Synchronize. Errors of launches on this
  // thread since the last call are recorded too.
  template <class Call>
  void Try(const Call& call, absl::string_view what) {
    const OnDevice current(ordinal_);
    NoteLastCudaError(Said("launching a kernel"));
    if (const cudaError_t error = call(); error != cudaSuccess) {
      cudaGetLastError();  // so that it is recorded once
      NoteCudaFailure(CudaStatus(error, Said(what)));
    }
  }

  CudaGraph& GraphOf(Recording* recording) {
    if (recording->handle == nullptr) {
      const std::lock_guard lock(mutex_);
      recording->handle = graphs_.emplace_back(std::make_unique<CudaGraph>()).get();
    }
    return *static_cast<CudaGraph*>(recording->handle);
  }

  absl::Status Prepare(std::byte* memory, int64_t bytes);
  absl::Status OutOfMemory(int64_t bytes) const;

  const int ordinal_;
  const std::string name_;
  const CudaDeviceOptions options_;
  CudaFailure failure_;
  std::mutex mutex_;  // guards what follows
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<std::unique_ptr<CudaGraph>> graphs_;
};

absl::Status CudaDevice::OutOfMemory(int64_t bytes) const {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s: %d bytes were asked for, %d of %d bytes are free", name_, bytes, free, total));
}

int64_t CudaDevice::AvailableBytes() const {
  const OnDevice current(ordinal_);
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return static_cast<int64_t>(free);
  cudaGetLastError();
  return -1;
}

absl::StatusOr<DeviceMemory> CudaDevice::Allocate(int64_t bytes) {
  const OnDevice current(ordinal_);
  const DeviceAllocator& allocator = options_.allocator;
  const int64_t size = std::max<int64_t>(bytes, 1);
  void* memory = allocator.allocate == nullptr ? nullptr : allocator.allocate(size);
  const bool is_own = memory == nullptr;
  const cudaError_t error = is_own ? cudaMalloc(&memory, static_cast<size_t>(size)) : cudaSuccess;
  if (error != cudaSuccess) {
    cudaGetLastError();
    return error == cudaErrorMemoryAllocation ? OutOfMemory(bytes)
                                              : CudaStatus(error, Said("allocating memory"));
  }
  const auto free = [ordinal = ordinal_, is_own, give_back = allocator.free](std::byte* data) {
    const OnDevice there(ordinal);
    cudaDeviceSynchronize();
    if (is_own) {
      cudaFree(data);
    } else {
      give_back(data);
    }
  };
  DeviceMemory owned(static_cast<std::byte*>(memory), bytes, free);
  if (absl::Status status = Prepare(owned.data(), bytes); !status.ok()) return status;
  return owned;
}

// Sets to zero on the default stream, which no other stream waits for, and so waits for its end.
absl::Status CudaDevice::Prepare(std::byte* memory, int64_t bytes) {
  cudaError_t error = cudaMemset(memory, 0, static_cast<size_t>(bytes));
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  return CudaStatus(error, Said("zeroing memory"));
}

absl::StatusOr<DeviceMemory> CudaDevice::AllocateShared(int64_t bytes) {
  const OnDevice current(ordinal_);
  void* memory = nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  // All GPUs of the process can use it, at the host's address (unified addressing).
  const cudaError_t error =
      cudaHostAlloc(&memory, size, cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return CudaStatus(error, Said(absl::StrCat("allocating ", bytes, " bytes of host memory")));
  }
  std::fill_n(static_cast<std::byte*>(memory), size, std::byte{0});
  const auto free = [ordinal = ordinal_](std::byte* data) {
    const OnDevice there(ordinal);
    cudaDeviceSynchronize();
    cudaFreeHost(data);
  };
  return DeviceMemory(static_cast<std::byte*>(memory), bytes, free);
}

absl::StatusOr<Stream> CudaDevice::NewStream() {
  cudaSetDevice(ordinal_);  // permanently: the thread that makes a stream launches kernels on it
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return CudaStatus(error, Said("making a stream"));
  RememberStream(stream, ordinal_);
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
  return Stream{stream};
}

absl::StatusOr<Event> CudaDevice::NewEvent() {
  const OnDevice current(ordinal_);
  cudaEvent_t event = nullptr;
  const cudaError_t error = cudaEventCreate(&event);
  if (error != cudaSuccess) return CudaStatus(error, Said("making an event"));
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  return Event{event};
}

absl::Status CudaDevice::Synchronize(Stream stream, Instant deadline) {
  const OnDevice current(ordinal_);
  NoteLastCudaError(Said("launching a kernel"));
  const Instant start = Instant::Now();
  for (;;) {
    const cudaError_t error = cudaStreamQuery(StreamOf(stream));
    if (error == cudaSuccess) return failure_.first();
    cudaGetLastError();  // "not ready" is no error
    if (error != cudaErrorNotReady) {
      // An earlier failure says more than those that it caused.
      NoteCudaFailure(CudaStatus(error, Said("running queued work")));
      return failure_.first();
    }
    const Instant now = Instant::Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(Said("queued work is not done after "), absl::FormatDuration(now - start)));
    }
    if (now - start > kSpin) std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

std::unique_ptr<Device> MakeCudaDevice(int ordinal, std::string name,
                                       const CudaDeviceOptions& options) {
  return std::make_unique<CudaDevice>(ordinal, std::move(name), options);
}

}  // namespace sluice
