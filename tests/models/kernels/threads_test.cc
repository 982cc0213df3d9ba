// Several threads change no bit of a kernel's result, and each value is computed once.
#include "models/kernels/cpu/threads.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "models/kernels/kernel_threads.h"
#include "models/kernels/kernels.h"
#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

// Restores the number of threads at the end of a test.
class ThreadsTest : public testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
  void TearDown() override { omp_set_num_threads(1); }
};

TEST_F(ThreadsTest, RangesMeetAndBeginAtMultiplesOfTheGrain) {
  for (const int threads : {1, 2, 3, 7}) {
    omp_set_num_threads(threads);
    for (const int64_t grain : {1, 5, 64}) {
      for (const int64_t n : {0, 1, 4, 5, 63, 64, 65, 1000}) {
        std::mutex mutex;
        std::map<int64_t, int64_t> ranges;
        cpu::DivideAmongThreads(n, grain, [&](int64_t first, int64_t count) {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(ranges.emplace(first, count).second) << first;
        });
        int64_t at = 0;
        for (const auto& [first, count] : ranges) {
          EXPECT_EQ(first, at);
          EXPECT_EQ(first % grain, 0);
          EXPECT_GT(count, 0);
          at += count;
        }
        EXPECT_EQ(at, n) << threads << " threads, grain " << grain;
        EXPECT_EQ(static_cast<int64_t>(ranges.size()),
                  std::min<int64_t>(threads, (n + grain - 1) / grain));
      }
    }
  }
}

TEST_F(ThreadsTest, WhatRunsOnAThreadOfItsOwnDoesNotStartMore) {
  omp_set_num_threads(3);
  {
    const KernelThreads inside(1);
    EXPECT_EQ(cpu::ThreadsNow(), 1);
  }
  EXPECT_EQ(cpu::ThreadsNow(), 3);
}

using Bits = std::vector<std::vector<char>>;

// Large enough for some ranges, of a size that no range divides.
constexpr int64_t kRows = 61;
constexpr int64_t kDim = 1100;
constexpr int64_t kValues = kRows * kDim;
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

Tensor Random(DType dtype, int64_t n, uint64_t seed) {
  return Tensor(dtype, RandomValues(static_cast<size_t>(n), seed));
}
Tensor Empty(DType dtype, int64_t n) { return Tensor(dtype, static_cast<size_t>(n)); }

Bits RunGated(DType dtype) {
  Tensor gate = Random(dtype, kValues, 1), up = Random(dtype, kValues, 2);
  Tensor dy = Random(dtype, kValues, 3), y = Empty(dtype, kValues);
  Tensor dgate = Empty(dtype, kValues), dup = Empty(dtype, kValues);
  const Kernels& kernels = CpuKernels();
  kernels.gated_forward({}, dtype, Activation::kSilu, kValues, gate.data(), up.data(), y.data());
  kernels.gated_backward({}, dtype, Activation::kSilu, kValues, gate.data(), up.data(), dy.data(),
                         dgate.data(), dup.data());
  return {y.Bits(), dgate.Bits(), dup.Bits()};
}

Bits RunActivation(DType dtype) {
  Tensor x = Random(dtype, kValues, 1), dy = Random(dtype, kValues, 2);
  Tensor y = Empty(dtype, kValues), dx = Empty(dtype, kValues);
  const Kernels& kernels = CpuKernels();
  kernels.activation_forward({}, dtype, Activation::kGelu, kValues, x.data(), y.data());
  kernels.activation_backward({}, dtype, Activation::kGelu, kValues, x.data(), dy.data(),
                              dx.data());
  return {y.Bits(), dx.Bits()};
}

Bits RunNorms(DType dtype) {
  const Kernels& kernels = CpuKernels();
  Tensor x = Random(dtype, kValues, 1), dy = Random(dtype, kValues, 2);
  Tensor residual = Random(dtype, kValues, 3);
  Tensor gamma = Random(DType::kFloat32, kDim, 4), beta = Random(DType::kFloat32, kDim, 5);
  Tensor mean = Empty(DType::kFloat32, kRows), rstd = Empty(DType::kFloat32, kRows);
  Tensor y = Empty(dtype, kValues), dx = Empty(dtype, kValues);
  Tensor partial = Empty(DType::kFloat32, 2 * kDim);
  kernels.layer_norm_forward({}, dtype, kRows, kDim, 1e-5f, x.data(), gamma.floats(), beta.floats(),
                             y.data(), mean.floats(), rstd.floats());
  kernels.layer_norm_backward({}, dtype, kRows, kDim, dy.data(), x.data(), gamma.floats(),
                              mean.floats(), rstd.floats(), residual.data(), dx.data(),
                              partial.floats(), nullptr);
  Bits bits = {y.Bits(), mean.Bits(), rstd.Bits(), dx.Bits(), partial.Bits()};
  Tensor rms_partial = Empty(DType::kFloat32, kDim);
  kernels.rms_norm_forward({}, dtype, kRows, kDim, 1e-5f, 1, x.data(), gamma.floats(),
                           residual.data(), y.data(), rstd.floats());
  kernels.rms_norm_backward({}, dtype, kRows, kDim, 1, dy.data(), x.data(), gamma.floats(),
                            rstd.floats(), nullptr, dx.data(), rms_partial.floats(), nullptr);
  for (const Tensor* tensor : {&y, &rstd, &dx, &rms_partial}) bits.push_back(tensor->Bits());
  return bits;
}

Bits RunRope(DType dtype) {
  const RopeShape shape = {
      .rows = kRows, .seq = 17, .heads = 11, .width = 100, .stride = kDim, .dtype = dtype};
  Tensor x = Random(dtype, kValues, 1), table = Random(DType::kFloat32, 17 * shape.width, 2);
  const Kernels& kernels = CpuKernels();
  kernels.rope({}, shape, table.floats(), nullptr, false, x.data());
  Bits bits = {x.Bits()};
  RopeShape heads = shape;
  heads.stride = heads.heads * heads.width;
  Tensor gamma = Random(DType::kFloat32, heads.width, 3), dy = Random(dtype, kValues, 4);
  Tensor y = Random(dtype, kValues, 5), dx = Random(dtype, kValues, 6);
  Tensor rrms = Empty(DType::kFloat32, kRows * heads.heads);
  Tensor partial = Empty(DType::kFloat32, heads.width);
  kernels.rms_norm_rope_forward({}, heads, 1e-5f, 1, x.data(), gamma.floats(), table.floats(),
                                nullptr, y.data(), rrms.floats());
  kernels.rms_norm_rope_backward({}, heads, 1, dy.data(), x.data(), gamma.floats(), rrms.floats(),
                                 table.floats(), nullptr, dx.data(), partial.floats(), nullptr);
  for (const Tensor* tensor : {&y, &rrms, &dx, &partial}) bits.push_back(tensor->Bits());
  return bits;
}

Bits RunCrossEntropy(DType dtype) {
  const CrossEntropyShape shape = {
      .dtype = dtype, .rows = kRows - 2, .classes = kDim, .padding = 2};
  Tensor logits = Random(dtype, kValues, 1);
  std::vector<int32_t> targets;
  for (int32_t row = 0; row < kRows - 2; ++row) targets.push_back(row % 7 == 3 ? -1 : row * 13);
  Workspace work(CpuKernels().cross_entropy_workspace(shape.rows, shape.classes));
  std::vector<double> loss = {0.5};
  int64_t correct = 3;
  CpuKernels().cross_entropy({}, shape, logits.data(), targets.data(), 0.25f, true, loss.data(),
                             &correct, work.data());
  const char* const bytes = reinterpret_cast<const char*>(loss.data());
  return {logits.Bits(),
          std::vector<char>(bytes, bytes + sizeof(double)),
          {static_cast<char>(correct)}};
}

Bits RunElementwise(DType dtype) {
  const Kernels& kernels = CpuKernels();
  Tensor x = Random(dtype, kValues, 1), y = Empty(dtype, kValues),
         added = Random(dtype, kValues, 2);
  kernels.soft_cap({}, dtype, kValues, 0.7f, x.data());
  kernels.scale({}, dtype, kValues, 1.3f, x.data());
  DropoutMask mask;
  mask.threshold = uint32_t{1} << 30;
  mask.scale = 4.0f / 3;
  kernels.dropout({}, dtype, kValues, mask, x.data(), added.data(), y.data());
  Tensor copy = Empty(dtype, kValues);
  kernels.copy({}, copy.data(), y.data(), y.bytes());
  bool finite = false;
  kernels.all_finite({}, dtype, kValues, y.data(), &finite);
  y.Set(kValues - 5, std::numeric_limits<double>::infinity());
  bool still_finite = true;
  kernels.all_finite({}, dtype, kValues, y.data(), &still_finite);
  EXPECT_TRUE(finite);
  EXPECT_FALSE(still_finite);
  return {x.Bits(), y.Bits(), copy.Bits()};
}

Bits RunSums(DType dtype) {
  const Kernels& kernels = CpuKernels();
  Tensor x = Random(DType::kFloat32, kValues, 1), y = Random(DType::kFloat32, kValues, 2);
  const AddedTensor added = {kValues, x.floats(), y.floats()};
  kernels.accumulate({}, {&added, 1}, true);
  std::vector<double> squares(static_cast<size_t>((kValues + kSquaresBlock - 1) / kSquaresBlock));
  const SquaredTensor squared = {kValues, y.floats(), squares.data()};
  kernels.block_squares({}, {&squared, 1});
  const char* const bytes = reinterpret_cast<const char*>(squares.data());
  Tensor dy = Random(dtype, kValues, 3);
  std::vector<int32_t> tokens;
  for (int32_t row = 0; row < kRows; ++row) tokens.push_back(row * row % 23);
  Tensor dwte = Empty(DType::kFloat32, 23 * kDim), dwpe = Empty(DType::kFloat32, 17 * kDim);
  for (const bool accumulate : {false, true}) {
    kernels.embedding_backward({}, dtype, tokens.data(), nullptr, kRows, 17, kDim, 23, 17, 1.5f,
                               dy.data(), dwte.floats(), dwpe.floats(), accumulate, nullptr);
  }
  Tensor sums = Empty(DType::kFloat32, kDim);
  const SummedColumns summed = {kRows, kDim, dy.data(), sums.floats()};
  for (const bool accumulate : {false, true}) {
    kernels.column_sums({}, dtype, {&summed, 1}, accumulate, nullptr);
  }
  return {y.Bits(), std::vector<char>(bytes, bytes + squares.size() * sizeof(double)), dwte.Bits(),
          dwpe.Bits(), sums.Bits()};
}

Bits RunOptimizers(DType) {
  Tensor weight = Random(DType::kFloat32, kValues, 1),
         gradient = Random(DType::kFloat32, kValues, 2);
  Tensor first = Random(DType::kFloat32, kValues, 3);
  Tensor second(DType::kFloat32, RandomValues(static_cast<size_t>(kValues), 4, 0, 1));
  OptimizerTensor tensor = {.n = kValues,
                            .weight = weight.floats(),
                            .gradient = gradient.floats(),
                            .moment1 = first.floats(),
                            .moment2 = second.floats(),
                            .weight_decay = 0.1f};
  CpuKernels().adamw({}, {.lr = 0.01f, .step = 3}, {&tensor, 1});
  Bits bits = {weight.Bits(), first.Bits(), second.Bits()};
  tensor.moment2 = nullptr;
  CpuKernels().sgd({}, {.lr = 0.01f, .momentum = 0.9f}, {&tensor, 1});
  bits.push_back(weight.Bits());
  bits.push_back(first.Bits());
  return bits;
}

Bits RunAttention(DType dtype) {
  const AttentionShape shape =
      Fused({.batch = 2, .seq = 75, .heads = 6, .kv_heads = 3, .width = 40, .dtype = dtype});
  const AttentionProblem problem(shape, RandomStarts(shape, 1));
  const AttentionBits bits = RunForBits(CpuKernels(), problem);
  return {bits.out, bits.lse, bits.gradients};
}

TEST_F(ThreadsTest, NoKernelDependsOnTheNumberOfThreads) {
  const std::vector<std::pair<std::string, Bits (*)(DType)>> kernels = {
      {"gated", RunGated}, {"activation", RunActivation},      {"norms", RunNorms},
      {"rope", RunRope},   {"cross-entropy", RunCrossEntropy}, {"elementwise", RunElementwise},
      {"sums", RunSums},   {"optimizers", RunOptimizers},      {"attention", RunAttention}};
  for (const auto& [name, run] : kernels) {
    for (const DType dtype : kTypes) {
      omp_set_num_threads(1);
      const Bits one = run(dtype);
      for (const int threads : {2, 3, 5}) {
        omp_set_num_threads(threads);
        EXPECT_TRUE(run(dtype) == one) << name << ", " << DTypeName(dtype) << ", " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
