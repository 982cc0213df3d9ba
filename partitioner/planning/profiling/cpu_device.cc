#include "partitioner/planning/profiling/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/local/in_process.h"
#include "models/device/host_limits.h"
#include "models/kernels/kernel_threads.h"
#include "models/kernels/kernels.h"
#include "models/spec/units.h"
#include "partitioner/planning/profiling/stopwatch.h"
#include "pipeline/run/rank_threads.h"

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
  const auto* biases = static_cast<const float*>(bias.get());
  linear->Pack({}, weights, biases, packed.get());
  const double seconds = LeastSeconds([&] {
    linear->Forward({}, x.get(), weights, packed.get(), biases, nullptr, y.get(), nullptr,
                    workspace.get());
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
absl::StatusOr<double> RoundTripSeconds(size_t bytes, int rounds) {
  InProcessGroup group(2);
  // Here, since a rank's own memory must not go before the other one has read it.
  const Bytes out[2] = {Bytes(bytes, 1), Bytes(bytes, 1)}, in[2] = {Bytes(bytes), Bytes(bytes)};
  double least = 0;  // of rank 0
  const auto exchange = [&](int rank, Communicator& communicator) -> absl::Status {
    for (int i = 0; i < rounds; ++i) {
      absl::Status status;
      const double seconds = SecondsOf([&] {
        Ticket sent = 0, received = 0;
        const Instant deadline = Instant::Now() + absl::Seconds(10);
        status = communicator.PostReceive(1 - rank, in[rank].get(), bytes, &received);
        // Rank 0 serves, rank 1 returns.
        if (rank == 1) status.Update(communicator.WaitReceive(0, received, deadline));
        status.Update(communicator.PostSend(1 - rank, out[rank].get(), bytes, &sent));
        if (rank == 0) status.Update(communicator.WaitReceive(1, received, deadline));
        status.Update(communicator.WaitSend(1 - rank, sent, deadline));
      });
      if (!status.ok()) return status;
      if (rank == 0) least = i == 0 ? seconds : std::min(least, seconds);
    }
    return absl::OkStatus();
  };
  if (absl::Status status = RunRanks(group, 2, {.pin = false}, exchange); !status.ok())
    return status;
  return least;
}

}  // namespace

absl::StatusOr<DeviceSpec> MeasureCpu(const ModelSpec& spec, const BatchShape& batch, DType dtype,
                                      int devices) {
  const KernelThreads one_core(1);
  const double rate = ProductRate(spec, batch, dtype);
  DeviceSpec device;
  device.name = "cpu";
  (dtype == DType::kBFloat16 ? device.bf16_flops : device.fp32_flops) = rate;
  device.memory_bandwidth = CopyRate();
  device.memory_bytes = ReadHostMemory().total_bytes / std::max(1, devices);
  const absl::StatusOr<Link> link = MeasureInProcessLink();
  if (!link.ok()) return link.status();
  device.link = *link;
  device.source = fmt::format("one core, measured now: {:.0f} GFLOP/s, {}/s of memory", rate / 1e9,
                              FormatBytes(device.memory_bandwidth));
  return device;
}

absl::StatusOr<Link> MeasureInProcessLink() {
  constexpr size_t kSmall = 64;
  constexpr size_t kLarge = size_t{4} << 20;
  Link link;
  const absl::StatusOr<double> small_trip = RoundTripSeconds(kSmall, 200);
  if (!small_trip.ok()) return small_trip.status();
  const absl::StatusOr<double> large_trip = RoundTripSeconds(kLarge, 10);
  if (!large_trip.ok()) return large_trip.status();
  link.latency = *small_trip / 2;
  const double large = *large_trip / 2;
  if (large > link.latency) link.bandwidth = static_cast<double>(kLarge) / (large - link.latency);
  return link;
}

}  // namespace sluice
