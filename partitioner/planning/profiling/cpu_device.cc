#include "partitioner/planning/profiling/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "comm/local/in_process.h"
#include "models/kernels/kernels.h"
#include "models/spec/units.h"
#include "partitioner/planning/profiling/machine.h"
#include "partitioner/planning/profiling/stopwatch.h"
#include "pipeline/compile/plan/kernel_threads.h"

namespace sluice {
namespace {

constexpr int kRepetitions = 7;
constexpr int64_t kMostRows = 1024;              // larger products are no faster
constexpr size_t kCopyBytes = size_t{32} << 20;  // beyond the caches
constexpr std::align_val_t kAlignment{64};
// Each byte of it: 0.747 as fp32 and as bf16. Zeros are multiplied faster by some processors.
constexpr int kThreeQuarters = 0x3f;

// Aligned bytes, all of one value.
class Bytes {
 public:
  explicit Bytes(size_t count, int value = 0) : data_(operator new(count, kAlignment)) {
    std::fill_n(static_cast<char*>(data_.get()), count, static_cast<char>(value));
  }
  void* get() const { return data_.get(); }

 private:
  struct Delete {
    void operator()(void* data) const { operator delete(data, kAlignment); }
  };
  std::unique_ptr<void, Delete> data_;
};

template <typename Call>
double LeastSeconds(const Call& call) {
  double least = SecondsOf(call);
  for (int i = 1; i < kRepetitions; ++i) least = std::min(least, SecondsOf(call));
  return least;
}

// FLOP/s of the widest product of `spec`.
double ProductRate(const ModelSpec& spec, const BatchShape& batch, DType dtype) {
  LinearShape shape;
  shape.rows = std::min(batch.rows(), kMostRows);
  shape.dtype = dtype;
  if (const DecoderConfig* gpt = spec.decoder()) {
    shape.in = gpt->dim;
    shape.out = gpt->mlp_width();
  } else {
    shape.in = spec.mlp()->widths[0];
    shape.out = spec.mlp()->widths[1];
  }
  const Kernels& kernels = CpuKernels();
  const std::unique_ptr<Linear> linear = kernels.make_linear(shape);
  const auto elements = [](int64_t a, int64_t b) { return static_cast<size_t>(a * b); };
  const Bytes x(elements(shape.rows, shape.in) * sizeof(float), kThreeQuarters);
  const Bytes y(elements(shape.rows, shape.out) * sizeof(float));
  const Bytes weight(elements(shape.in, shape.out) * sizeof(float), kThreeQuarters);
  const Bytes bias(elements(1, shape.out) * sizeof(float));
  const Bytes packed(linear->packed_bytes());
  const Bytes workspace(linear->forward_workspace());
  const auto* weights = static_cast<const float*>(weight.get());
  linear->Pack({}, weights, packed.get());
  const double seconds = LeastSeconds([&] {
    linear->Forward({}, x.get(), weights, packed.get(), static_cast<const float*>(bias.get()),
                    nullptr, y.get(), nullptr, workspace.get());
  });
  return 2 * static_cast<double>(elements(shape.rows, shape.in)) * static_cast<double>(shape.out) /
         seconds;
}

double CopyRate() {
  const Bytes from(kCopyBytes, 1), to(kCopyBytes);
  const double seconds =
      LeastSeconds([&] { CpuKernels().copy({}, to.get(), from.get(), kCopyBytes); });
  return 2 * static_cast<double>(kCopyBytes) / seconds;  // read and written
}

// Seconds of one message of `bytes` from one thread to another and back, at best.
double RoundTripSeconds(size_t bytes, int rounds) {
  InProcessGroup group(2);
  const auto exchange = [&group, bytes, rounds](int rank) {
    Communicator& communicator = group.communicator(rank);
    const Bytes out(bytes, 1), in(bytes);
    double least = 0;
    for (int i = 0; i < rounds; ++i) {
      const double seconds = SecondsOf([&] {
        Ticket sent = 0, received = 0;
        const Instant deadline = Instant::Now() + absl::Seconds(10);
        absl::Status status = communicator.PostReceive(1 - rank, in.get(), bytes, &received);
        // Rank 0 serves, rank 1 returns.
        if (rank == 1) status.Update(communicator.WaitReceive(0, received, deadline));
        status.Update(communicator.PostSend(1 - rank, out.get(), bytes, &sent));
        if (rank == 0) status.Update(communicator.WaitReceive(1, received, deadline));
        status.Update(communicator.WaitSend(1 - rank, sent, deadline));
        if (!status.ok()) group.communicator(rank).Abort(status);
      });
      least = i == 0 ? seconds : std::min(least, seconds);
    }
    return least;
  };
  std::thread other(exchange, 1);
  const double seconds = exchange(0);
  other.join();
  return seconds;
}

}  // namespace

DeviceSpec MeasureCpu(const ModelSpec& spec, const BatchShape& batch, DType dtype, int devices) {
  const KernelThreads one_core(1);
  const double rate = ProductRate(spec, batch, dtype);
  DeviceSpec device;
  device.name = "cpu";
  (dtype == DType::kBFloat16 ? device.bf16_flops : device.fp32_flops) = rate;
  device.memory_bandwidth = CopyRate();
  device.memory_bytes = ReadMemory("").total_bytes / std::max(1, devices);
  device.link = MeasureInProcessLink();
  device.source = fmt::format("one core, measured now: {:.0f} GFLOP/s, {}/s of memory", rate / 1e9,
                              FormatBytes(device.memory_bandwidth));
  return device;
}

Link MeasureInProcessLink() {
  constexpr size_t kSmall = 64;
  constexpr size_t kLarge = size_t{4} << 20;
  Link link;
  link.latency = RoundTripSeconds(kSmall, 200) / 2;
  const double large = RoundTripSeconds(kLarge, 10) / 2;
  if (large > link.latency) link.bandwidth = static_cast<double>(kLarge) / (large - link.latency);
  return link;
}

}  // namespace sluice
