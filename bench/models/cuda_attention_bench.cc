// Attention on the first GPU, over shapes of GPT-2 and of longer sequences: device time of each
// pass and its share of the tensor cores' peak. FLOPs are those of a causal pass (4 * b * h * s * s
// * d / 2, and 2.5 times that backward, though the kernels do 3.5 times: they compute the scores
// twice). cuDNN's attention is the line below sluice's, if it takes the shape and is installed.
//   cuda_attention_bench [peak TFLOP/s, 989 (H100, H200; bf16) unless given]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/models/cuda_timing.h"
#include "models/device/cuda_device.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {
namespace {

constexpr double kPeakTeraflops = 989;

struct Case {
  const char* name;
  AttentionShape shape;
};

constexpr DType kBF16 = DType::kBFloat16;
constexpr Case kCases[] = {
    {"GPT-2 124M", {.batch = 16, .seq = 1024, .dim = 768, .heads = 12, .dtype = kBF16}},
    {"GPT-2 1.5B", {.batch = 8, .seq = 1024, .dim = 1600, .heads = 25, .dtype = kBF16}},
    {"heads of 128", {.batch = 8, .seq = 1024, .dim = 2048, .heads = 16, .dtype = kBF16}},
    {"8192 long", {.batch = 1, .seq = 8192, .dim = 2048, .heads = 32, .dtype = kBF16}},
    {"8192 long, heads of 128",
     {.batch = 1, .seq = 8192, .dim = 2048, .heads = 16, .dtype = kBF16}},
    {"fp32", {.batch = 4, .seq = 1024, .dim = 768, .heads = 12}},
};

void Report(const char* name, const char* pass, double flops, double seconds, double peak) {
  const double rate = flops / seconds / 1e12;
  fmt::print("{:32}{:10}{:>10.1f}{:>12.1f}{:>8.1f} %\n", name, pass, seconds * 1e6, rate,
             100 * rate / peak);
}

void Measure(Device& device, Stream stream, const char* name, const AttentionShape& s,
             const Kernels& kernels, double peak) {
  const auto attention = *kernels.make_attention(s);
  attention->Prepare(stream);
  const int64_t n = s.batch * s.seq * s.dim;
  const DeviceMemory qkv = RandomTensor(device, stream, s.dtype, 3 * n);
  const DeviceMemory dout = RandomTensor(device, stream, s.dtype, n);
  const DeviceMemory dqkv = OrFail(device.Allocate(3 * n * SizeOf(s.dtype)));
  const DeviceMemory out = OrFail(device.Allocate(n * SizeOf(s.dtype)));
  const DeviceMemory lse = OrFail(device.Allocate(s.batch * s.heads * s.seq * 4));
  const size_t bytes = std::max(attention->forward_workspace(), attention->backward_workspace());
  const DeviceMemory workspace = OrFail(device.Allocate(static_cast<int64_t>(bytes)));
  auto* const sums = reinterpret_cast<float*>(lse.data());

  const double flops = 2.0 * static_cast<double>(s.batch * s.seq) * static_cast<double>(s.seq) *
                       static_cast<double>(s.dim);
  const double forward = Seconds(device, stream, [&] {
    attention->Forward(stream, qkv.data(), out.data(), sums, workspace.data());
  });
  Report(name, "forward", flops, forward, peak);
  const double backward = Seconds(device, stream, [&] {
    attention->Backward(stream, qkv.data(), out.data(), sums, dout.data(), dqkv.data(),
                        workspace.data());
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
  for (const Case& c : kCases) {
    Measure(*device, stream, c.name, c.shape, CudaKernels(), peak);
    if (!cudnn.ok() || !CheckCudnnAttention(c.shape).ok()) continue;
    Measure(*device, stream, "  cuDNN", c.shape, CudaKernels(CudaAttention::kCudnn), peak);
  }
  if (!cudnn.ok()) fmt::print("no cuDNN: {}\n", std::string(cudnn.message()));
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
