// CUDA's kernels other than attention on the first GPU, at the shapes of a micro-batch of GPT-2:
// device time, and the share of what the roofline allows: the memory's bandwidth for the bytes that
// must be read and written once, or the tensor cores' peak for the FLOPs of a product.
//   cuda_kernels_bench
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "bench/models/cuda_timing.h"
#include "models/device/cuda_device.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice {
namespace {

// From the data sheets: bytes/s, and FLOP/s of dense bf16 products.
struct Roof {
  const char* name;
  double bandwidth, peak;
};
constexpr Roof kRoofs[] = {{"B200", 8.0e12, 2250e12},
                           {"H200", 4.8e12, 989e12},
                           {"H100", 3.35e12, 989e12},
                           {"A100", 2.0e12, 312e12}};
constexpr DType kBF16 = DType::kBFloat16;
constexpr int64_t kRows = 16'384, kSeq = 1024, kVocab = 50304;

class Bench {
 public:
  Bench() : device_(OrFail(OpenCudaDevice(0))), stream_(OrFail(device_->NewStream())) {
    const absl::Status status = PrepareCudaKernels();
    if (!status.ok()) Fail(status);
    FindRoof();
  }

  void Run() {
    fmt::print("{:24}{:26}{:>10}{:>12}{:>10}\n", "kernel", "shape", "us", "rate", "share");
    Flat();
    for (const int64_t dim : {768, 1600}) Rows(dim);
    for (const int64_t dim : {2048, 4096}) Rotary(dim);
    for (const int64_t dim : {5632, 14336}) Gated(dim);
    CrossEntropy();
    for (const int64_t dim : {768, 1600}) Products(dim);
    Head(768);
  }

 private:
  // If the device is not in the table, its rate of copying (reading and writing) is the roofline.
  void FindRoof() {
    const double bytes = 1e9;
    const DeviceMemory from = Memory(int64_t{500'000'000}), to = Memory(int64_t{500'000'000});
    const double copy = bytes / Seconds(*device_, stream_, [&] {
                          device_->Copy(stream_, to.data(), from.data(), size_t{500'000'000});
                        });
    roof_ = {"", copy, 0};
    for (const Roof& roof : kRoofs) {
      if (absl::StrContains(device_->name(), roof.name)) roof_ = roof;
    }
    fmt::print("{}: copies at {:.2f} TB/s; roofs: {:.2f} TB/s, {:.0f} TFLOP/s\n", device_->name(),
               copy / 1e12, roof_.bandwidth / 1e12, roof_.peak / 1e12);
  }

  DeviceMemory Memory(int64_t bytes) { return OrFail(device_->Allocate(bytes)); }
  DeviceMemory Random(DType dtype, int64_t n) { return RandomTensor(*device_, stream_, dtype, n); }
  static float* Floats(const DeviceMemory& memory) {
    return reinterpret_cast<float*>(memory.data());
  }

  void Time(const char* kernel, const std::string& shape, double bytes,
            const std::function<void()>& run) {
    const double rate = bytes / Seconds(*device_, stream_, run);
    fmt::print("{:24}{:26}{:>10.1f}{:>7.2f} TB/s{:>8.1f} %\n", kernel, shape, bytes / rate * 1e6,
               rate / 1e12, 100 * rate / roof_.bandwidth);
  }
  void TimeProduct(const char* kernel, const std::string& shape, double flops,
                   const std::function<void()>& run) {
    const double rate = flops / Seconds(*device_, stream_, run);
    const double share = roof_.peak == 0 ? 0 : 100 * rate / roof_.peak;
    fmt::print("{:24}{:26}{:>10.1f}{:>5.0f} TFLOP/s{:>7.1f} %\n", kernel, shape, flops / rate * 1e6,
               rate / 1e12, share);
  }

  void Flat();
  void Rows(int64_t dim);
  void Rotary(int64_t dim);
  void Gated(int64_t dim);
  void CrossEntropy();
  void Products(int64_t dim);
  void Head(int64_t dim);
  // LinearShape's rows and type are the benchmark's.
  void Product(LinearShape shape);

  const Kernels& k_ = CudaKernels();
  std::unique_ptr<Device> device_;
  Stream stream_;
  Roof roof_ = {};
};

// The weights of GPT-2 124M.
void Bench::Flat() {
  constexpr int64_t kParameters = 124'475'904;
  const std::string shape = fmt::format("{}", kParameters);
  const auto n = static_cast<double>(kParameters);
  const DeviceMemory w = Memory(4 * kParameters), g = Memory(4 * kParameters);
  const DeviceMemory m = Memory(4 * kParameters), v = Memory(4 * kParameters);
  const int64_t blocks = (kParameters + kSquaresBlock - 1) / kSquaresBlock;
  const DeviceMemory sums = Memory(8 * blocks), total = Memory(16), finite = Memory(1);
  auto* const squares = reinterpret_cast<double*>(sums.data());
  const OptimizerTensor tensor = {.n = kParameters,
                                  .weight = Floats(w),
                                  .gradient = Floats(g),
                                  .moment1 = Floats(m),
                                  .moment2 = Floats(v),
                                  .weight_decay = 0.1f};
  Time("adamw", shape, 28 * n, [&] { k_.adamw(stream_, {.lr = 1e-4f}, {&tensor, 1}); });
  Time("sgd", shape, 20 * n, [&] { k_.sgd(stream_, {.lr = 1e-4f}, {&tensor, 1}); });
  const AddedTensor added = {kParameters, Floats(g), Floats(m)};
  Time("accumulate", shape, 12 * n, [&] { k_.accumulate(stream_, {&added, 1}, true); });
  const SquaredTensor squared = {kParameters, Floats(g), squares};
  Time("block_squares", shape, 4 * n, [&] { k_.block_squares(stream_, {&squared, 1}); });
  const GroupedSum row = {
      .n = blocks, .values = squares, .sums = reinterpret_cast<double*>(total.data())};
  Time("add_in_groups", fmt::format("{}", blocks), 8.0 * static_cast<double>(blocks), [&] {
    k_.add_in_groups(stream_, {&row, 1});
  });
  Time("all_finite", shape, 4 * n, [&] {
    k_.all_finite(stream_, DType::kFloat32, kParameters, g.data(),
                  reinterpret_cast<bool*>(finite.data()));
  });
}

void Bench::Rows(int64_t dim) {
  const int64_t n = kRows * dim;
  const auto bytes = static_cast<double>(n * SizeOf(kBF16));  // of one tensor
  const std::string shape = fmt::format("[{}, {}] bf16", kRows, dim);
  const DeviceMemory x = Random(kBF16, n), dy = Random(kBF16, n), y = Memory(2 * n);
  const DeviceMemory gamma = Random(DType::kFloat32, dim), partial = Memory(8 * dim);
  const DeviceMemory mean = Memory(4 * kRows), rstd = Memory(4 * kRows);
  const size_t most = std::max(k_.layer_norm_backward_workspace(kRows, dim),
                               k_.embedding_backward_workspace(kRows, dim));
  const DeviceMemory workspace = Memory(static_cast<int64_t>(most));
  Time("layer_norm_forward", shape, 2 * bytes, [&] {
    k_.layer_norm_forward(stream_, kBF16, kRows, dim, 1e-5f, x.data(), Floats(gamma), Floats(gamma),
                          y.data(), Floats(mean), Floats(rstd));
  });
  Time("layer_norm_backward", shape, 4 * bytes, [&] {
    k_.layer_norm_backward(stream_, kBF16, kRows, dim, dy.data(), x.data(), Floats(gamma),
                           Floats(mean), Floats(rstd), y.data(), y.data(), Floats(partial),
                           workspace.data());
  });
  Time("rms_norm_forward", shape, 2 * bytes, [&] {
    k_.rms_norm_forward(stream_, kBF16, kRows, dim, 1e-5f, 0, x.data(), Floats(gamma), nullptr,
                        y.data(), Floats(rstd));
  });
  Time("rms_norm_backward", shape, 4 * bytes, [&] {
    k_.rms_norm_backward(stream_, kBF16, kRows, dim, 0, dy.data(), x.data(), Floats(gamma),
                         Floats(rstd), y.data(), y.data(), Floats(partial), workspace.data());
  });
  Time("activation_forward", shape, 2 * bytes,
       [&] { k_.activation_forward(stream_, kBF16, Activation::kGelu, n, x.data(), y.data()); });
  Time("activation_backward", shape, 3 * bytes, [&] {
    k_.activation_backward(stream_, kBF16, Activation::kGelu, n, x.data(), dy.data(), y.data());
  });
  const DeviceMemory wte = Memory(4 * kVocab * dim), wpe = Memory(4 * kSeq * dim);
  const DeviceMemory tokens = OrFail(device_->AllocateShared(4 * kRows));
  auto* const token = reinterpret_cast<int32_t*>(tokens.data());
  for (int64_t r = 0; r < kRows; ++r) token[r] = static_cast<int32_t>(r * r * 7919 % kVocab);
  Time("embedding_forward", shape, 3 * bytes, [&] {
    k_.embedding_forward(stream_, kBF16, token, nullptr, kRows, kSeq, dim, 1, DType::kFloat32,
                         Floats(wte), Floats(wpe), y.data());
  });
  Time("embedding_backward", shape, 6 * bytes, [&] {
    k_.embedding_backward(stream_, kBF16, token, nullptr, kRows, kSeq, dim, kVocab, kSeq, 1,
                          dy.data(), Floats(wte), Floats(wpe), true, workspace.data());
  });
}

// The queries of heads of 128: turned alone, and normed, in two passes and in one.
void Bench::Rotary(int64_t dim) {
  constexpr int64_t kWidth = 128, kPairs = kWidth / 2;
  const auto bytes = static_cast<double>(kRows * dim * SizeOf(kBF16));  // of one tensor
  const std::string shape = fmt::format("[{}, {}] bf16", kRows, dim);
  const DeviceMemory x = Random(kBF16, kRows * dim), table = Memory(4 * kSeq * kWidth);
  const std::vector<float> frequencies(kPairs, 0.5f);
  Time("rope_table", fmt::format("[{}, {}]", kSeq, kWidth), 4.0 * kSeq * kWidth,
       [&] { k_.rope_table(stream_, kSeq, kPairs, frequencies.data(), 1, Floats(table)); });
  const RopeShape heads = {kRows, kSeq, dim / kWidth, kWidth, dim, kBF16};
  Time("rope", shape, 2 * bytes,
       [&] { k_.rope(stream_, heads, Floats(table), nullptr, false, x.data()); });
  const int64_t count = kRows * heads.heads;
  const DeviceMemory dy = Random(kBF16, kRows * dim), y = Memory(2 * kRows * dim);
  const DeviceMemory gamma = Random(DType::kFloat32, kWidth), partial = Memory(4 * kWidth);
  const DeviceMemory rrms = Memory(4 * count);
  const DeviceMemory workspace =
      Memory(static_cast<int64_t>(k_.rms_norm_backward_workspace(count, kWidth)));
  Time("norm of heads, forward", shape, 2 * bytes, [&] {
    k_.rms_norm_forward(stream_, kBF16, count, kWidth, 1e-5f, 0, x.data(), Floats(gamma), nullptr,
                        y.data(), Floats(rrms));
  });
  Time("norm of heads, backward", shape, 3 * bytes, [&] {
    k_.rms_norm_backward(stream_, kBF16, count, kWidth, 0, dy.data(), x.data(), Floats(gamma),
                         Floats(rrms), nullptr, y.data(), Floats(partial), workspace.data());
  });
  Time("norm and rope, forward", shape, 2 * bytes, [&] {
    k_.rms_norm_rope_forward(stream_, heads, 1e-5f, 0, x.data(), Floats(gamma), Floats(table),
                             nullptr, y.data(), Floats(rrms));
  });
  Time("norm and rope, backward", shape, 3 * bytes, [&] {
    k_.rms_norm_rope_backward(stream_, heads, 0, dy.data(), x.data(), Floats(gamma), Floats(rrms),
                              Floats(table), nullptr, y.data(), Floats(partial), workspace.data());
  });
}

void Bench::Gated(int64_t dim) {
  const int64_t n = kRows * dim;
  const auto bytes = static_cast<double>(n * SizeOf(kBF16));  // of one tensor
  const std::string shape = fmt::format("[{}, {}] bf16", kRows, dim);
  const DeviceMemory gate = Random(kBF16, n), up = Random(kBF16, n), y = Random(kBF16, n);
  const DeviceMemory dgate = Memory(2 * n), dup = Memory(2 * n);
  Time("gated_forward", shape, 3 * bytes, [&] {
    k_.gated_forward(stream_, kBF16, Activation::kSilu, n, gate.data(), up.data(), y.data());
  });
  Time("gated_backward", shape, 5 * bytes, [&] {
    k_.gated_backward(stream_, kBF16, Activation::kSilu, n, gate.data(), up.data(), y.data(),
                      dgate.data(), dup.data());
  });
}

void Bench::CrossEntropy() {
  constexpr int64_t kSome = 4096;  // rows, to limit memory
  for (const int64_t classes : {kVocab, int64_t{50257}}) {
    const DeviceMemory logits = Random(kBF16, kSome * classes), loss = Memory(16);
    const DeviceMemory targets = Memory(4 * kSome);
    const DeviceMemory workspace =
        Memory(static_cast<int64_t>(k_.cross_entropy_workspace(kSome, classes)));
    auto* const results = reinterpret_cast<double*>(loss.data());
    Time("cross_entropy", fmt::format("[{}, {}] bf16", kSome, classes),
         2.0 * 2 * static_cast<double>(kSome * classes), [&] {
           k_.cross_entropy(stream_, {.dtype = kBF16, .rows = kSome, .classes = classes},
                            logits.data(), reinterpret_cast<const int32_t*>(targets.data()), 1e-6f,
                            false, results, reinterpret_cast<int64_t*>(results + 1),
                            workspace.data());
         });
  }
}

void Bench::Product(LinearShape shape) {
  shape.rows = kRows;
  shape.dtype = kBF16;
  const int64_t in = shape.in, out = shape.out, width = shape.out_width();
  const auto linear = k_.make_linear(shape);
  const DeviceMemory x = Random(kBF16, kRows * in), dy = Random(kBF16, kRows * width);
  const DeviceMemory weight = Random(DType::kFloat32, in * width), dw = Memory(4 * in * out);
  const DeviceMemory bias = Random(DType::kFloat32, out), db = Memory(4 * out);
  const DeviceMemory y = Memory(2 * kRows * width), activated = Memory(2 * kRows * width);
  const DeviceMemory dx = Memory(2 * kRows * in);
  const DeviceMemory packed = Memory(static_cast<int64_t>(linear->packed_bytes()));
  const SummedColumns bias_shape = {.rows = kRows, .columns = out};
  const size_t most =
      std::max({linear->forward_workspace(), linear->input_grad_workspace(),
                linear->weight_grad_workspace(), k_.column_sums_workspace({&bias_shape, 1})});
  const DeviceMemory workspace = Memory(static_cast<int64_t>(most));
  const std::string name = width == out
                               ? fmt::format("[{}, {}] x [{}]", kRows, in, out)
                               : fmt::format("[{}, {}] x [{} of {}]", kRows, in, out, width);
  const double flops = 2.0 * static_cast<double>(kRows * in) * static_cast<double>(out);
  Time("pack", fmt::format("[{}, {}]", in, out), 6.0 * static_cast<double>(in * out), [&] {
    linear->Pack(stream_, Floats(weight), shape.bias ? Floats(bias) : nullptr, packed.data());
  });
  const bool activates = shape.activation != Activation::kNone;
  TimeProduct(activates ? "forward, gelu" : "forward", name, flops, [&] {
    linear->Forward(stream_, x.data(), Floats(weight), packed.data(),
                    shape.bias ? Floats(bias) : nullptr, nullptr, y.data(),
                    activates ? activated.data() : nullptr, workspace.data());
  });
  TimeProduct(
      shape.input_activation == Activation::kGelu ? "input gradient, gelu" : "input gradient", name,
      flops, [&] {
        linear->BackwardInput(stream_, dy.data(), Floats(weight), packed.data(), x.data(),
                              dx.data(), workspace.data());
      });
  const SummedColumns sums = {kRows, out, dy.data(), Floats(db)};
  TimeProduct("weight gradient", name, flops, [&] {
    linear->BackwardWeight(stream_, x.data(), dy.data(), Floats(dw), true, workspace.data());
    if (shape.bias) k_.column_sums(stream_, kBF16, {&sums, 1}, true, workspace.data());
  });
}

void Bench::Products(int64_t dim) {
  Product({.in = dim, .out = 3 * dim});
  Product({.in = dim, .out = dim});
  Product({.in = dim, .out = 4 * dim, .activation = Activation::kGelu});
  Product({.in = 4 * dim, .out = dim, .input_activation = Activation::kGelu});
}

// GPT-2's words: as many as are a multiple of 64, as it has, and these without padding.
void Bench::Head(int64_t dim) {
  constexpr int64_t kWords = 50257;
  const LinearShape head = {.in = dim, .out = kVocab, .weight_transposed = true, .bias = false};
  Product(head);
  LinearShape odd = head;
  odd.out = kWords;
  odd.padded_out = PaddedWidth(kWords, k_.head_limits);
  Product(odd);
  odd.padded_out = 0;
  Product(odd);
}

}  // namespace
}  // namespace sluice

int main() { sluice::Bench().Run(); }
