// Attention on the first GPU, over shapes of GPT-2, of grouped queries and of longer sequences:
// device time of each pass and its share of the tensor cores' peak. FLOPs are those of a causal
// pass (4 * b * h * s * s * d / 2, and 2.5 times that backward, though the kernels do 3.5 times:
// they compute the scores twice). cuDNN's attention is the line below sluice's, if it takes the
// shape and is installed.
//   cuda_attention_bench [peak TFLOP/s, 989 (H100, H200; bf16) unless given]
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/models/attention_cases.h"
#include "bench/models/cuda_timing.h"
#include "models/device/cuda_device.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {
namespace {

constexpr double kPeakTeraflops = 989;

void Report(const char* name, const char* pass, double flops, double seconds, double peak) {
  const double rate = flops / seconds / 1e12;
  fmt::print("{:32}{:10}{:>10.1f}{:>12.1f}{:>8.1f} %\n", name, pass, seconds * 1e6, rate,
             100 * rate / peak);
}

// Pairs of a query and a key that it sees, but for half of the diagonal.
double Scores(const AttentionCase& c) {
  const AttentionShape& s = c.shape;
  const auto seq = static_cast<double>(s.seq), window = static_cast<double>(s.window);
  if (c.document > 0) return static_cast<double>(s.batch * s.heads * s.seq * c.document) / 2;
  const double unseen = s.window == 0 ? 0 : (seq - window) * (seq - window) / 2;
  return static_cast<double>(s.batch * s.heads) * (seq * seq / 2 - unseen);
}

// Where the documents of the rows begin, on the device.
DeviceMemory Starts(Device& device, const AttentionCase& c) {
  DeviceMemory starts = OrFail(device.AllocateShared(c.shape.batch * c.shape.seq * 4));
  auto* const start = reinterpret_cast<int32_t*>(starts.data());
  for (int64_t row = 0; row < c.shape.batch * c.shape.seq; ++row) {
    const int64_t position = row % c.shape.seq;
    start[row] = static_cast<int32_t>(position - position % c.document);
  }
  return starts;
}

void Measure(Device& device, Stream stream, const char* name, const AttentionCase& c,
             const Kernels& kernels, double peak) {
  const AttentionShape& s = c.shape;
  const auto attention = *kernels.make_attention(s);
  attention->Prepare(stream);
  const int64_t rows = s.batch * s.seq, dim = s.heads * s.width;
  const DeviceMemory qkv = RandomTensor(device, stream, s.dtype, rows * s.q_stride);
  const DeviceMemory dout = RandomTensor(device, stream, s.dtype, rows * dim);
  const DeviceMemory dqkv = OrFail(device.Allocate(rows * s.q_stride * SizeOf(s.dtype)));
  const DeviceMemory out = OrFail(device.Allocate(rows * dim * SizeOf(s.dtype)));
  const DeviceMemory lse = OrFail(device.Allocate(s.batch * s.heads * s.seq * 4));
  const size_t bytes = std::max(attention->forward_workspace(), attention->backward_workspace());
  const DeviceMemory workspace = OrFail(device.Allocate(static_cast<int64_t>(bytes)));
  auto* const sums = reinterpret_cast<float*>(lse.data());

  const auto part = [&](const DeviceMemory& tensor, int64_t head) -> void* {
    return reinterpret_cast<std::byte*>(tensor.data()) + head * s.width * SizeOf(s.dtype);
  };
  const int64_t keys = s.heads, values = s.heads + s.kv_heads;
  const DeviceMemory starts = c.document > 0 ? Starts(device, c) : DeviceMemory();
  const AttentionInput in = {.q = part(qkv, 0),
                             .k = part(qkv, keys),
                             .v = part(qkv, values),
                             .starts = reinterpret_cast<const int32_t*>(starts.data())};
  const double flops = 4.0 * Scores(c) * static_cast<double>(s.width);
  const double forward = Seconds(
      device, stream, [&] { attention->Forward(stream, in, out.data(), sums, workspace.data()); });
  Report(name, "forward", flops, forward, peak);
  const double backward = Seconds(device, stream, [&] {
    attention->Backward(stream, in, out.data(), sums, dout.data(), part(dqkv, 0), part(dqkv, keys),
                        part(dqkv, values), workspace.data());
  });
  Report("", "backward", 2.5 * flops, backward, peak);
}

int Main(int argc, char** argv) {
  const double peak = argc > 1 ? std::atof(argv[1]) : kPeakTeraflops;
  const auto device = OrFail(OpenCudaDevice(0));
  const Stream stream = OrFail(device->NewStream());
  fmt::print("{}, of {:.0f} TFLOP/s\n", device->name(), peak);
  fmt::print("{:32}{:10}{:>10}{:>12}{:>10}\n", "shape", "pass", "us", "TFLOP/s", "share");
  const absl::Status cudnn = PrepareCudaKernels(CudaAttention::kCudnn);
  for (const AttentionCase& c : kAttentionCases) {
    Measure(*device, stream, c.name, c, CudaKernels(), peak);
    if (!cudnn.ok() || c.document > 0 || !CheckCudnnAttention(c.shape).ok()) continue;
    Measure(*device, stream, "  cuDNN", c, CudaKernels(CudaAttention::kCudnn), peak);
  }
  if (!cudnn.ok()) fmt::print("no cuDNN: {}\n", std::string(cudnn.message()));
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
