// What the tests of all devices' kernels do not ask: CUDA's own pieces, and that no order in which
// blocks, warps and lanes may run changes a bit.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "models/kernels/cuda/functions.h"
#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using Bits = std::vector<std::vector<char>>;

// The same bits for every seed.
template <class Body>
void ExpectSameBits(const Body& body) {
  emulation::launch_seed = 1;
  const Bits first = body();
  for (uint64_t seed = 2; seed < 6; ++seed) {
    emulation::launch_seed = seed;
    EXPECT_EQ(body(), first) << "seed " << seed;
  }
}

// A copy of values, 64-byte aligned or one value after that.
class Placed {
 public:
  Placed(DType dtype, const Values& values, bool aligned)
      : n_(values.size()), dtype_(dtype), bytes_(values.size() * 4 + 128) {
    const auto start = reinterpret_cast<uintptr_t>(bytes_.data());
    at_ = (64 - start % 64) % 64 + (aligned ? 0 : static_cast<size_t>(SizeOf(dtype)));
    const std::vector<char> bits = Tensor(dtype, values).Bits();
    std::copy(bits.begin(), bits.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(at_));
  }
  void* data() { return bytes_.data() + at_; }
  float* floats() { return static_cast<float*>(data()); }
  std::vector<char> Bits() {
    const auto* const from = static_cast<const char*>(data());
    return {from, from + n_ * static_cast<size_t>(SizeOf(dtype_))};
  }

 private:
  size_t n_;
  DType dtype_;
  std::vector<char> bytes_;
  size_t at_ = 0;
};

Bits NormBits(DType dtype, int64_t rows, int64_t dim, bool centered, bool aligned) {
  const auto place = [&](DType type, int64_t n_rows, int64_t n_columns, uint64_t seed) {
    return Placed(type, RandomMatrix(n_rows, n_columns, seed, -1, 2), aligned);
  };
  Placed x = place(dtype, rows, dim, 1), dy = place(dtype, rows, dim, 2);
  Placed residual = place(dtype, rows, dim, 3), y = place(dtype, rows, dim, 4);
  Placed gamma = place(DType::kFloat32, 1, dim, 5), beta = place(DType::kFloat32, 1, dim, 6);
  Placed mean = place(DType::kFloat32, 1, rows, 7), rstd = place(DType::kFloat32, 1, rows, 8);
  Placed dx = place(dtype, rows, dim, 9), partial = place(DType::kFloat32, 2, dim, 10);
  if (centered) {
    Workspace workspace(cuda::LayerNormBackwardWorkspace(rows, dim));
    cuda::LayerNormForward({}, dtype, rows, dim, 1e-5f, x.data(), gamma.floats(), beta.floats(),
                           y.data(), mean.floats(), rstd.floats());
    cuda::LayerNormBackward({}, dtype, rows, dim, dy.data(), x.data(), gamma.floats(),
                            mean.floats(), rstd.floats(), residual.data(), dx.data(),
                            partial.floats(), workspace.data());
  } else {
    Workspace workspace(cuda::RmsNormBackwardWorkspace(rows, dim));
    cuda::RmsNormForward({}, dtype, rows, dim, 1e-5f, 1, x.data(), gamma.floats(), residual.data(),
                         y.data(), rstd.floats());
    cuda::RmsNormBackward({}, dtype, rows, dim, 1, dy.data(), x.data(), gamma.floats(),
                          rstd.floats(), residual.data(), dx.data(), partial.floats(),
                          workspace.data());
  }
  return {y.Bits(), mean.Bits(), rstd.Bits(), dx.Bits(), partial.Bits()};
}

// Only aligned rows are held in registers; the sums of others run in the same order.
TEST(CudaKernelsTest, NormsDoNotDependOnAlignment) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool centered : {false, true}) {
      for (const auto& [rows, dim] : {std::pair<int64_t, int64_t>(5, 8),
                                      {33, 768},
                                      {3, 1000},
                                      {int64_t{16} * Trials(100, 4), 776},
                                      {6, 2048},
                                      {3, 2056}}) {
        EXPECT_EQ(NormBits(dtype, rows, dim, centered, true),
                  NormBits(dtype, rows, dim, centered, false))
            << DTypeName(dtype) << " [" << rows << ", " << dim << "]";
      }
    }
  }
}

TEST(CudaKernelsTest, RoundingToBFloat16IsToNearestEven) {
  for (const size_t n : {1, 8, 9, 3000}) {
    const Values values = RandomValues(n, 1, -100, 100);
    Tensor from(DType::kFloat32, values);
    Tensor to(DType::kBFloat16, n);
    cuda::ToBFloat16({}, static_cast<int64_t>(n), from.floats(), to.data());
    EXPECT_EQ(to.ToValues(), Rounded(from.ToValues(), DType::kBFloat16));
  }
}

// Several tiles of the sort, and tokens of many windows.
TEST(CudaKernelsTest, EmbeddingOfManyRowsAddsInRowOrder) {
  constexpr int64_t kDim = 8, kSeq = 1300;
  for (const int64_t rows : {kSeq, 3 * kSeq}) {
    for (const int vocab : {3, 5000}) {
      std::mt19937_64 random(7);
      Reachable<int32_t> tokens(static_cast<size_t>(rows));
      for (int32_t& token : tokens) {
        token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
      }
      Tensor dy(DType::kFloat32, RandomMatrix(rows, kDim, 3));
      Tensor dwte(DType::kFloat32, static_cast<size_t>(vocab * kDim));
      Tensor dwpe(DType::kFloat32, static_cast<size_t>(kSeq * kDim));
      Workspace workspace(cuda::EmbeddingBackwardWorkspace(rows, kDim));
      cuda::EmbeddingBackward({}, DType::kFloat32, tokens.data(), nullptr, rows, kSeq, kDim, vocab,
                              kSeq, 1, dy.data(), dwte.floats(), dwpe.floats(), false,
                              workspace.data());
      std::vector<float> want(dwte.size(), 0);
      twin::AddRows({tokens.begin(), tokens.end()}, dy.ToValues(), kDim, 1, RowWindow(), &want);
      EXPECT_EQ(std::vector<float>(dwte.floats(), dwte.floats() + dwte.size()), want);
    }
  }
}

// Positions are sorted like tokens where documents begin within sequences.
TEST(CudaKernelsTest, PositionsOfManyDocumentsAddInRowOrder) {
  constexpr int64_t kDim = 8, kSeq = 1300, kRows = 3 * kSeq, kVocab = 3;
  const Reachable<int32_t> tokens(static_cast<size_t>(kRows), 1);
  for (const int32_t length : {1, 7, 700}) {
    Reachable<int32_t> starts(static_cast<size_t>(kRows));
    for (int64_t r = 0; r < kRows; ++r) {
      starts[static_cast<size_t>(r)] = static_cast<int32_t>(r % kSeq) / length * length;
    }
    Tensor dy(DType::kFloat32, RandomMatrix(kRows, kDim, 3));
    Tensor dwte(DType::kFloat32, size_t{kVocab * kDim}), dwpe(DType::kFloat32, size_t{kSeq * kDim});
    Workspace workspace(cuda::EmbeddingBackwardWorkspace(kRows, kDim));
    cuda::EmbeddingBackward({}, DType::kFloat32, tokens.data(), starts.data(), kRows, kSeq, kDim,
                            kVocab, kSeq, 1, dy.data(), dwte.floats(), dwpe.floats(), false,
                            workspace.data());
    std::vector<int64_t> positions;
    for (int64_t r = 0; r < kRows; ++r) {
      positions.push_back(r % kSeq - starts[static_cast<size_t>(r)]);
    }
    std::vector<float> want(dwpe.size(), 0);
    twin::AddRows(positions, dy.ToValues(), kDim, 1, RowWindow(), &want);
    EXPECT_EQ(std::vector<float>(dwpe.floats(), dwpe.floats() + dwpe.size()), want) << length;
  }
}

// A vocabulary over many rounds of a block, its rows at every place between two of 16 bytes.
TEST(CudaKernelsTest, CrossEntropyOfALargeVocabulary) {
  constexpr int64_t kRows = 9, kClasses = 10'007;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Values values = Rounded(RandomMatrix(kRows, kClasses, 1, -8, 8), dtype);
    Reachable<int32_t> targets;
    for (int32_t r = 0; r < kRows; ++r) targets.push_back(r * 1250);
    const twin::Loss want =
        twin::CrossEntropy(kRows, kClasses, values, {targets.begin(), targets.end()});
    Tensor logits(dtype, values);
    Reachable<double> loss(1);
    Reachable<int64_t> correct(1);
    Workspace workspace(cuda::CrossEntropyWorkspace(kRows, kClasses));
    cuda::CrossEntropy({}, {.dtype = dtype, .rows = kRows, .classes = kClasses}, logits.data(),
                       targets.data(), 1.0f, false, loss.data(), correct.data(), workspace.data());
    EXPECT_NEAR(loss[0], want.sum, 1e-6 * want.sum);
    EXPECT_EQ(correct[0], want.correct);
    ExpectClose(logits, want.dlogits, 4 * Epsilon(dtype), 1e-7, "dlogits");
  }
}

// Rows in shared memory, which are copied ahead, and the same rows where no 16 bytes are aligned.
TEST(CudaKernelsTest, CrossEntropyHasTheSameBitsWhereARowIsKept) {
  constexpr int64_t kRows = 3;
  for (const int64_t classes : {48, 50'001, 50'304}) {
    const auto n = static_cast<size_t>(kRows * classes);
    const Tensor values(DType::kBFloat16, RandomMatrix(kRows, classes, 1, -8, 8));
    const Reachable<int32_t> targets = {0, -1, static_cast<int32_t>(classes - 1)};
    const auto compute = [&](size_t misaligned, float grad_scale) {
      Reachable<uint16_t> logits(n + misaligned);
      uint16_t* const first = logits.data() + misaligned;
      std::memcpy(first, values.data(), n * sizeof(uint16_t));
      Reachable<double> loss(1);
      Reachable<int64_t> correct(1);
      Workspace workspace(cuda::CrossEntropyWorkspace(kRows, classes));
      cuda::CrossEntropy({}, {.dtype = DType::kBFloat16, .rows = kRows, .classes = classes}, first,
                         targets.data(), grad_scale, false, loss.data(), correct.data(),
                         workspace.data());
      const char* const bytes = reinterpret_cast<const char*>(first);
      const char* const of_loss = reinterpret_cast<const char*>(loss.data());
      return Bits{{bytes, bytes + n * sizeof(uint16_t)}, {of_loss, of_loss + sizeof(double)}};
    };
    const Bits want = compute(1, 0.5f);
    ExpectSameBits([&] { return compute(0, 0.5f); });
    EXPECT_EQ(compute(0, 0.5f), want) << classes;
    EXPECT_EQ(compute(0, 0)[1], want[1]) << classes << ", only the loss";
  }
}

// More tensors than one launch takes, of lengths that end within a block or begin a next one.
TEST(CudaKernelsTest, OneOptimizerCallEqualsOneForEachTensor) {
  std::vector<std::unique_ptr<Tensor>> weights, gradients, moments;
  std::vector<OptimizerTensor> together, alone;
  for (size_t i = 0; i < 70; ++i) {
    const size_t n = i % 7 == 0 ? 5000 : i % 5 == 0 ? 0 : 3 + i;
    gradients.push_back(std::make_unique<Tensor>(DType::kFloat32, RandomValues(n, i)));
    for (std::vector<OptimizerTensor>* list : {&together, &alone}) {
      const auto make = [&](auto& tensors, uint64_t seed) {
        tensors.push_back(std::make_unique<Tensor>(DType::kFloat32, RandomValues(n, seed, 0, 1)));
        return tensors.back()->floats();
      };
      list->push_back({.n = static_cast<int64_t>(n),
                       .weight = make(weights, 100 + i),
                       .gradient = gradients.back()->floats(),
                       .moment1 = make(moments, 200 + i),
                       .moment2 = make(moments, 300 + i),
                       .weight_decay = static_cast<float>(i) / 100});
    }
  }
  const AdamWStep step = {.lr = 0.01f, .step = 3};
  cuda::AdamW({}, step, together);
  for (const OptimizerTensor& tensor : alone) cuda::AdamW({}, step, {&tensor, 1});
  for (size_t i = 0; i < weights.size(); i += 2) {
    EXPECT_EQ(weights[i]->Bits(), weights[i + 1]->Bits()) << i / 2;
    EXPECT_EQ(moments[2 * i]->Bits(), moments[2 * i + 2]->Bits()) << i / 2;
    EXPECT_EQ(moments[2 * i + 1]->Bits(), moments[2 * i + 3]->Bits()) << i / 2;
  }
}

TEST(CudaKernelsTest, AnyOrderGivesTheSameBits) {
  constexpr int64_t kRows = 37, kDim = 48;
  const DType dtype = DType::kBFloat16;
  const Tensor dy(dtype, RandomMatrix(kRows, kDim, 1));
  const Tensor x(dtype, RandomMatrix(kRows, kDim, 2));
  Tensor gamma(DType::kFloat32, RandomMatrix(1, kDim, 3));
  Reachable<int32_t> tokens;
  for (int32_t r = 0; r < kRows; ++r) tokens.push_back(r * 5 % 7);
  ExpectSameBits([&] {
    Tensor mean(DType::kFloat32, size_t{kRows}), rstd(DType::kFloat32, size_t{kRows});
    Tensor y(dtype, x.size()), dx(dtype, x.size()), partial(DType::kFloat32, size_t{2 * kDim});
    Workspace workspace(cuda::LayerNormBackwardWorkspace(kRows, kDim));
    cuda::LayerNormForward({}, dtype, kRows, kDim, 1e-5f, x.data(), gamma.floats(), gamma.floats(),
                           y.data(), mean.floats(), rstd.floats());
    cuda::LayerNormBackward({}, dtype, kRows, kDim, dy.data(), x.data(), gamma.floats(),
                            mean.floats(), rstd.floats(), nullptr, dx.data(), partial.floats(),
                            workspace.data());
    return Bits{y.Bits(), mean.Bits(), rstd.Bits(), dx.Bits(), partial.Bits()};
  });
  ExpectSameBits([&] {
    Tensor rrms(DType::kFloat32, size_t{kRows}), partial(DType::kFloat32, size_t{kDim});
    Tensor y(dtype, x.size()), dx(dtype, x.size());
    Workspace workspace(cuda::RmsNormBackwardWorkspace(kRows, kDim));
    cuda::RmsNormForward({}, dtype, kRows, kDim, 1e-5f, 0, x.data(), gamma.floats(), nullptr,
                         y.data(), rrms.floats());
    cuda::RmsNormBackward({}, dtype, kRows, kDim, 0, dy.data(), x.data(), gamma.floats(),
                          rrms.floats(), nullptr, dx.data(), partial.floats(), workspace.data());
    return Bits{y.Bits(), rrms.Bits(), dx.Bits(), partial.Bits()};
  });
  ExpectSameBits([&] {
    Tensor logits(dtype, x.ToValues());
    Reachable<double> loss(1);
    Reachable<int64_t> correct(1);
    Workspace workspace(cuda::CrossEntropyWorkspace(kRows, kDim));
    cuda::CrossEntropy({}, {.dtype = dtype, .rows = kRows, .classes = kDim}, logits.data(),
                       tokens.data(), 0.5f, false, loss.data(), correct.data(), workspace.data());
    const char* const bytes = reinterpret_cast<const char*>(loss.data());
    return Bits{logits.Bits(), {bytes, bytes + sizeof(double)}};
  });
  ExpectSameBits([&] {
    Tensor dwte(DType::kFloat32, size_t{7 * kDim}), dwpe(DType::kFloat32, size_t{kRows * kDim});
    Workspace workspace(cuda::EmbeddingBackwardWorkspace(kRows, kDim));
    cuda::EmbeddingBackward({}, dtype, tokens.data(), nullptr, kRows, kRows, kDim, 7, kRows, 1,
                            dy.data(), dwte.floats(), dwpe.floats(), false, workspace.data());
    Tensor sums(DType::kFloat32, size_t{kDim});
    const SummedColumns summed = {kRows, kDim, dy.data(), sums.floats()};
    Workspace parts(cuda::ColumnSumsWorkspace({&summed, 1}));
    cuda::ColumnSums({}, dtype, {&summed, 1}, false, parts.data());
    return Bits{dwte.Bits(), dwpe.Bits(), sums.Bits()};
  });
}

}  // namespace
}  // namespace sluice
