#include <gtest/gtest.h>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

constexpr int64_t kSeq = 5, kRows = 3 * kSeq, kVocab = 7, kMaxSeq = 8;

Reachable<int32_t> Tokens() {
  Reachable<int32_t> tokens(static_cast<size_t>(kRows));
  for (size_t r = 0; r < tokens.size(); ++r) {
    tokens[r] = static_cast<int32_t>(r * 5 % 6);  // token 6 never appears
  }
  return tokens;
}

TEST(EmbeddingTest, ForwardAddsTokenAndPosition) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t dim : {1, 16, 33}) {
      const Reachable<int32_t> tokens = Tokens();
      Tensor wte(DType::kFloat32, RandomMatrix(kVocab, dim, 1));
      Tensor wpe(DType::kFloat32, RandomMatrix(kMaxSeq, dim, 2));
      Tensor y(dtype, static_cast<size_t>(kRows * dim));
      KernelsUnderTest().embedding_forward({}, dtype, tokens.data(), kRows, kSeq, dim, wte.floats(),
                                           wpe.floats(), y.data());
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t i = 0; i < dim; ++i) {
          const float sum = wte.floats()[tokens[static_cast<size_t>(r)] * dim + i] +
                            wpe.floats()[r % kSeq * dim + i];
          EXPECT_EQ(y.Get(static_cast<size_t>(r * dim + i)),
                    Rounded(static_cast<double>(sum), dtype));
        }
      }
    }
  }
}

TEST(EmbeddingTest, BackwardAddsRowsInOrderAndAccumulates) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t dim : {1, 16, 33}) {
      const Reachable<int32_t> tokens = Tokens();
      const Values gradient = Rounded(RandomMatrix(kRows, dim, 3), dtype);
      const Tensor dy(dtype, gradient);
      Tensor dwte(DType::kFloat32, static_cast<size_t>(kVocab * dim));
      Tensor dwpe(DType::kFloat32, static_cast<size_t>(kMaxSeq * dim));
      std::vector<float> want_token(dwte.size(), 0), want_position(dwpe.size(), 0);
      Workspace workspace(KernelsUnderTest().embedding_backward_workspace(kRows, kVocab));
      for (const bool accumulate : {false, true}) {
        KernelsUnderTest().embedding_backward({}, dtype, tokens.data(), kRows, kSeq, dim, kVocab,
                                              kMaxSeq, dy.data(), dwte.floats(), dwpe.floats(),
                                              accumulate, workspace.data());
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t i = 0; i < dim; ++i) {
            const auto value = static_cast<float>(gradient[static_cast<size_t>(r * dim + i)]);
            const int64_t token = tokens[static_cast<size_t>(r)];
            want_token[static_cast<size_t>(token * dim + i)] += value;
            want_position[static_cast<size_t>(r % kSeq * dim + i)] += value;
          }
        }
        // The same additions in the same order: equal to the bit.
        EXPECT_EQ(std::vector<float>(dwte.floats(), dwte.floats() + dwte.size()), want_token);
        EXPECT_EQ(std::vector<float>(dwpe.floats(), dwpe.floats() + dwpe.size()), want_position);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
