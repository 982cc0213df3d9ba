// Every CPU kernel alone, on one core, at the sizes of a small GPT: products in GFLOP/s and as a
// share of what oneDNN reaches with packed weights, everything else in GB/s of the tensors it must
// read and write.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "bench/models/gemm_peak.h"
#include "models/kernels/kernels.h"

namespace sluice {
namespace {

constexpr int64_t kRows = 1024, kDim = 384;

DType TypeOf(const benchmark::State& state) {
  return state.range(0) == 0 ? DType::kFloat32 : DType::kBFloat16;
}

double Peak(DType dtype) {
  static const double peaks[] = {GemmPeak(DType::kFloat32), GemmPeak(DType::kBFloat16)};
  return peaks[dtype == DType::kBFloat16 ? 1 : 0];
}

// Runs `call` for as long as the benchmark says and labels it with its share of the core's peak.
template <class Call>
void RunProduct(benchmark::State& state, DType dtype, double flops, const Call& call) {
  const double peak = Peak(dtype);
  const double start = ThreadSeconds();
  for (auto _ : state) call();
  const double each = (ThreadSeconds() - start) / static_cast<double>(state.iterations());
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(fmt::format("{} {:5.1f} % of peak", DTypeName(dtype), 100 * flops / each / peak));
}

template <class Call>
void RunMemory(benchmark::State& state, DType dtype, double bytes, const Call& call) {
  for (auto _ : state) call();
  state.counters["B/s"] = benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(DTypeName(dtype));
}

// Buffers that live as long as one benchmark.
class Buffers {
 public:
  ~Buffers() {
    for (void* buffer : buffers_) std::free(buffer);
  }
  void* New(int64_t n, DType dtype) {
    return buffers_.emplace_back(BenchBuffer(static_cast<size_t>(n * SizeOf(dtype)), dtype));
  }
  float* Floats(int64_t n) { return static_cast<float*>(New(n, DType::kFloat32)); }
  void* Bytes(size_t bytes) { return buffers_.emplace_back(BenchBuffer(bytes, DType::kFloat32)); }

 private:
  std::vector<void*> buffers_;
};

enum Product { kForward, kInputGrad, kWeightGrad };

void BM_Linear(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const int64_t in = state.range(2), out = state.range(3);
  const auto linear =
      CpuKernels().make_linear({.rows = kRows, .in = in, .out = out, .dtype = dtype});
  Buffers b;
  void *x = b.New(kRows * in, dtype), *y = b.New(kRows * out, dtype);
  float *w = b.Floats(in * out), *bias = b.Floats(out);
  void *packed = b.Bytes(linear->packed_bytes()), *workspace = b.Bytes(size_t{1} << 25);
  linear->Pack({}, w, bias, packed);
  RunProduct(state, dtype, 2.0 * static_cast<double>(kRows * in * out), [&] {
    switch (state.range(1)) {
      case kForward:
        linear->Forward({}, x, w, packed, bias, nullptr, y, nullptr, workspace);
        break;
      case kInputGrad:
        linear->BackwardInput({}, y, w, packed, nullptr, x, workspace);
        break;
      default:
        linear->BackwardWeight({}, x, y, w, true, workspace);
    }
  });
}
BENCHMARK(BM_Linear)
    ->ArgNames({"bf16", "F0_I1_W2", "in", "out"})
    ->ArgsProduct({{0, 1}, {kForward, kInputGrad, kWeightGrad}, {384}, {256, 384, 1152, 1536}})
    ->ArgsProduct({{0, 1}, {kForward, kInputGrad, kWeightGrad}, {1536}, {384}});

// Both passes over shapes with queries, keys and values side by side; FLOPs are those of the scores
// that the queries see.
void RunAttention(benchmark::State& state, AttentionShape s, bool backward) {
  s.q_stride = s.kv_stride = (s.heads + 2 * s.kv_heads) * s.width;
  const auto attention = *CpuKernels().make_attention(s);
  const int64_t rows = s.batch * s.seq, dim = s.heads * s.width;
  Buffers b;
  char* const qkv = static_cast<char*>(b.New(rows * s.q_stride, s.dtype));
  char* const dqkv = static_cast<char*>(b.New(rows * s.q_stride, s.dtype));
  void *out = b.New(rows * dim, s.dtype), *dout = b.New(rows * dim, s.dtype);
  float* lse = b.Floats(s.heads * rows);
  void* workspace =
      b.Bytes(std::max(attention->forward_workspace(), attention->backward_workspace()));
  const int64_t keys = dim * SizeOf(s.dtype);
  const int64_t values = keys + s.kv_heads * s.width * SizeOf(s.dtype);
  const AttentionInput in = {.q = qkv, .k = qkv + keys, .v = qkv + values};
  attention->Forward({}, in, out, lse, workspace);
  const auto unseen = static_cast<double>(s.window == 0 ? 0 : s.seq - s.window);
  const auto seq = static_cast<double>(s.seq);
  const double scores = static_cast<double>(s.batch * s.heads) * (seq * seq - unseen * unseen) / 2;
  const double flops = (backward ? 8.0 : 4.0) * scores * static_cast<double>(s.width);
  RunProduct(state, s.dtype, flops, [&] {
    if (backward) {
      attention->Backward({}, in, out, lse, dout, dqkv, dqkv + keys, dqkv + values, workspace);
    } else {
      attention->Forward({}, in, out, lse, workspace);
    }
  });
}

void BM_Attention(benchmark::State& state) {
  const int64_t seq = state.range(2);
  const AttentionShape shape = {.batch = kRows / seq,
                                .seq = seq,
                                .heads = 6,
                                .kv_heads = 6,
                                .width = kDim / 6,
                                .dtype = TypeOf(state)};
  RunAttention(state, shape, state.range(1) != 0);
}
BENCHMARK(BM_Attention)
    ->ArgNames({"bf16", "backward", "seq"})
    ->ArgsProduct({{0, 1}, {0, 1}, {64, 256, 1024}});

// One sequence of GPT-2's 12 heads of 64, of Qwen3-0.6B's 16 heads of 128 with 8 of keys, and of
// longer ones with and without a window and a cap.
void BM_GroupedAttention(benchmark::State& state) {
  const AttentionShape shape = {.batch = 1,
                                .seq = state.range(2),
                                .heads = state.range(3),
                                .kv_heads = state.range(4),
                                .width = state.range(5),
                                .window = state.range(6),
                                .soft_cap = static_cast<float>(state.range(7)),
                                .dtype = TypeOf(state)};
  RunAttention(state, shape, state.range(1) != 0);
}
BENCHMARK(BM_GroupedAttention)
    ->ArgNames({"bf16", "backward", "seq", "heads", "kv", "width", "window", "cap"})
    ->ArgsProduct({{0, 1}, {0, 1}, {512}, {12}, {12}, {64}, {0}, {0}})
    ->ArgsProduct({{0, 1}, {0, 1}, {512}, {16}, {8}, {128}, {0}, {0, 50}})
    ->ArgsProduct({{0, 1}, {0, 1}, {2048}, {16}, {8}, {128}, {0, 512}, {0}})
    ->ArgsProduct({{0}, {0, 1}, {4096}, {4}, {2}, {64}, {0, 256}, {0}});

void BM_LayerNorm(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const bool backward = state.range(1) != 0;
  Buffers b;
  void *x = b.New(kRows * kDim, dtype), *y = b.New(kRows * kDim, dtype);
  void *dy = b.New(kRows * kDim, dtype), *dx = b.New(kRows * kDim, dtype);
  float *gamma = b.Floats(kDim), *beta = b.Floats(kDim), *partial = b.Floats(2 * kDim);
  float *mean = b.Floats(kRows), *rstd = b.Floats(kRows);
  RunMemory(state, dtype, static_cast<double>((backward ? 4 : 2) * kRows * kDim * SizeOf(dtype)),
            [&] {
              if (backward) {
                CpuKernels().layer_norm_backward({}, dtype, kRows, kDim, dy, x, gamma, mean, rstd,
                                                 dy, dx, partial, nullptr);
              } else {
                CpuKernels().layer_norm_forward({}, dtype, kRows, kDim, 1e-5f, x, gamma, beta, y,
                                                mean, rstd);
              }
            });
}
BENCHMARK(BM_LayerNorm)->ArgNames({"bf16", "backward"})->ArgsProduct({{0, 1}, {0, 1}});

void BM_RmsNorm(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const bool backward = state.range(1) != 0;
  Buffers b;
  void *x = b.New(kRows * kDim, dtype), *y = b.New(kRows * kDim, dtype);
  void *dy = b.New(kRows * kDim, dtype), *dx = b.New(kRows * kDim, dtype);
  float *gamma = b.Floats(kDim), *partial = b.Floats(kDim), *rrms = b.Floats(kRows);
  RunMemory(state, dtype, static_cast<double>((backward ? 4 : 2) * kRows * kDim * SizeOf(dtype)),
            [&] {
              if (backward) {
                CpuKernels().rms_norm_backward({}, dtype, kRows, kDim, 0, dy, x, gamma, rrms, dy,
                                               dx, partial, nullptr);
              } else {
                CpuKernels().rms_norm_forward({}, dtype, kRows, kDim, 1e-5f, 0, x, gamma, nullptr,
                                              y, rrms);
              }
            });
}
BENCHMARK(BM_RmsNorm)->ArgNames({"bf16", "backward"})->ArgsProduct({{0, 1}, {0, 1}});

void BM_Gelu(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const bool backward = state.range(1) != 0;
  constexpr int64_t kN = kRows * 4 * kDim;
  Buffers b;
  void *x = b.New(kN, dtype), *y = b.New(kN, dtype), *dy = b.New(kN, dtype);
  RunMemory(state, dtype, static_cast<double>((backward ? 3 : 2) * kN * SizeOf(dtype)), [&] {
    if (backward) {
      CpuKernels().activation_backward({}, dtype, Activation::kGelu, kN, x, dy, y);
    } else {
      CpuKernels().activation_forward({}, dtype, Activation::kGelu, kN, x, y);
    }
  });
}
BENCHMARK(BM_Gelu)->ArgNames({"bf16", "backward"})->ArgsProduct({{0, 1}, {0, 1}});

void BM_GatedSilu(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const bool backward = state.range(1) != 0;
  constexpr int64_t kN = kRows * 4 * kDim;
  Buffers b;
  void *gate = b.New(kN, dtype), *up = b.New(kN, dtype), *y = b.New(kN, dtype);
  void *dgate = b.New(kN, dtype), *dup = b.New(kN, dtype);
  RunMemory(state, dtype, static_cast<double>((backward ? 5 : 3) * kN * SizeOf(dtype)), [&] {
    if (backward) {
      CpuKernels().gated_backward({}, dtype, Activation::kSilu, kN, gate, up, y, dgate, dup);
    } else {
      CpuKernels().gated_forward({}, dtype, Activation::kSilu, kN, gate, up, y);
    }
  });
}
BENCHMARK(BM_GatedSilu)->ArgNames({"bf16", "backward"})->ArgsProduct({{0, 1}, {0, 1}});

// Queries and keys of grouped heads.
void BM_Rope(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const int64_t width = state.range(1), heads = 2 * kDim / width;
  constexpr int64_t kSeq = 256;
  Buffers b;
  float *frequencies = b.Floats(width / 2), *table = b.Floats(kSeq * width);
  void* x = b.New(kRows * heads * width, dtype);
  std::fill_n(frequencies, width / 2, 0.5f);
  CpuKernels().rope_table({}, kSeq, width / 2, frequencies, 1, table);
  const RopeShape shape = {kRows, kSeq, heads, width, heads * width, dtype};
  bool inverse = false;  // in turn, so that values stay what they are
  RunMemory(state, dtype, static_cast<double>(2 * kRows * heads * width * SizeOf(dtype)), [&] {
    CpuKernels().rope({}, shape, table, nullptr, inverse, x);
    inverse = !inverse;
  });
}
BENCHMARK(BM_Rope)->ArgNames({"bf16", "width"})->ArgsProduct({{0, 1}, {64, 80, 128}});

void BM_CrossEntropy(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const int64_t classes = state.range(1);
  Buffers b;
  void* logits = b.New(kRows * classes, dtype);
  const std::vector<int32_t> targets(static_cast<size_t>(kRows), 3);
  void* const work = b.New(
      static_cast<int64_t>(CpuKernels().cross_entropy_workspace(kRows, classes)), DType::kFloat32);
  double loss = 0;
  int64_t correct = 0;
  RunMemory(state, dtype, static_cast<double>(2 * kRows * classes * SizeOf(dtype)), [&] {
    CpuKernels().cross_entropy({}, {.dtype = dtype, .rows = kRows, .classes = classes}, logits,
                               targets.data(), 1e-3f, false, &loss, &correct, work);
  });
}
BENCHMARK(BM_CrossEntropy)->ArgNames({"bf16", "classes"})->ArgsProduct({{0, 1}, {256, 16384}});

constexpr int64_t kParameters = int64_t{1} << 22;

void BM_AdamW(benchmark::State& state) {
  Buffers b;
  float *w = b.Floats(kParameters), *grad = b.Floats(kParameters);
  float *m = b.Floats(kParameters), *v = b.Floats(kParameters);
  std::fill_n(v, kParameters, 1.0f);
  const OptimizerTensor tensor = {
      .n = kParameters, .weight = w, .gradient = grad, .moment1 = m, .moment2 = v};
  RunMemory(state, DType::kFloat32, 7.0 * sizeof(float) * kParameters, [&] {
    CpuKernels().adamw({}, {.lr = 1e-3f, .step = 10}, {&tensor, 1});
  });
}
BENCHMARK(BM_AdamW);

void BM_BlockSquares(benchmark::State& state) {
  Buffers b;
  const float* x = b.Floats(kParameters);
  std::vector<double> sums(static_cast<size_t>(kParameters / kSquaresBlock));
  RunMemory(state, DType::kFloat32, 1.0 * sizeof(float) * kParameters, [&] {
    const SquaredTensor tensor = {kParameters, x, sums.data()};
    CpuKernels().block_squares({}, {&tensor, 1});
  });
}
BENCHMARK(BM_BlockSquares);

void BM_AllFinite(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  Buffers b;
  const void* x = b.New(kParameters, dtype);
  bool finite = false;
  RunMemory(state, dtype, static_cast<double>(SizeOf(dtype) * kParameters),
            [&] { CpuKernels().all_finite({}, dtype, kParameters, x, &finite); });
}
BENCHMARK(BM_AllFinite)->ArgNames({"bf16"})->Arg(0)->Arg(1);

void BM_Embedding(benchmark::State& state) {
  const DType dtype = TypeOf(state);
  const bool backward = state.range(1) != 0;
  constexpr int64_t kSeq = 256, kVocab = 256;
  Buffers b;
  void* y = b.New(kRows * kDim, dtype);
  float *wte = b.Floats(kVocab * kDim), *wpe = b.Floats(kSeq * kDim);
  std::vector<int32_t> tokens(static_cast<size_t>(kRows));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % kVocab);
  RunMemory(state, dtype, static_cast<double>(kRows * kDim * (SizeOf(dtype) + (backward ? 16 : 8))),
            [&] {
              if (backward) {
                CpuKernels().embedding_backward({}, dtype, tokens.data(), nullptr, kRows, kSeq,
                                                kDim, kVocab, kSeq, 1, y, wte, wpe, true, nullptr);
              } else {
                CpuKernels().embedding_forward({}, dtype, tokens.data(), nullptr, kRows, kSeq, kDim,
                                               1, DType::kFloat32, wte, wpe, y);
              }
            });
}
BENCHMARK(BM_Embedding)->ArgNames({"bf16", "backward"})->ArgsProduct({{0, 1}, {0, 1}});

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
