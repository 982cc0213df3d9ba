#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

constexpr int64_t kSeq = 5;
constexpr int64_t kRows = 3 * kSeq;
constexpr int64_t kVocab = 7;
constexpr int64_t kMaxSeq = 8;

Reachable<int32_t> Tokens() {
  Reachable<int32_t> tokens(static_cast<size_t>(kRows));
  for (size_t r = 0; r < tokens.size(); ++r) {
    tokens[r] = static_cast<int32_t>(r * 5 % 6);  // token 6 never appears
  }
  return tokens;
}

// Two documents a sequence, but for the first sequence.
Reachable<int32_t> Starts() {
  Reachable<int32_t> starts(static_cast<size_t>(kRows), 0);
  for (int64_t r = kSeq; r < kRows; ++r) {
    starts[static_cast<size_t>(r)] = r % kSeq < 2 ? 0 : 2;
  }
  return starts;
}

// What a layer may ask for: documents, a scale (a power of two, so that sums stay exact to the bit)
// and positions, or none of them.
struct Options {
  bool documents = false;
  float scale = 1;
  bool positions = true;
};
constexpr Options kOptions[] = {{},
                                {.documents = true},
                                {.scale = 4},
                                {.positions = false},
                                {.documents = true, .scale = 0.5f, .positions = false}};

template <class Body>
void ForEachCase(const Body& body) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t dim : {1, 16, 33}) {
      for (const Options& options : kOptions) {
        SCOPED_TRACE(testing::Message() << DTypeName(dtype) << ", " << dim << " values, scale "
                                        << options.scale << (options.documents ? ", documents" : "")
                                        << (options.positions ? ", positions" : ""));
        body(dtype, dim, options);
      }
    }
  }
}

size_t PositionOf(const Reachable<int32_t>& starts, bool documents, int64_t row) {
  const int64_t start = documents ? starts[static_cast<size_t>(row)] : 0;
  return static_cast<size_t>(row % kSeq - start);
}

void ExpectForward(DType dtype, DType table, int64_t dim, const Options& options) {
  const Reachable<int32_t> tokens = Tokens(), starts = Starts();
  const Tensor wte(table, RandomMatrix(kVocab, dim, 1));
  const Tensor wpe(table, RandomMatrix(kMaxSeq, dim, 2));
  Tensor y(dtype, static_cast<size_t>(kRows * dim));
  KernelsUnderTest().embedding_forward(
      {}, dtype, tokens.data(), options.documents ? starts.data() : nullptr, kRows, kSeq, dim,
      options.scale, table, wte.data(), options.positions ? wpe.data() : nullptr, y.data());
  for (int64_t r = 0; r < kRows; ++r) {
    const size_t token = static_cast<size_t>(tokens[static_cast<size_t>(r)] * dim);
    const size_t position = PositionOf(starts, options.documents, r) * static_cast<size_t>(dim);
    for (size_t i = 0; i < static_cast<size_t>(dim); ++i) {
      float sum = options.scale * static_cast<float>(wte.Get(token + i));
      if (options.positions) sum += static_cast<float>(wpe.Get(position + i));
      EXPECT_EQ(y.Get(static_cast<size_t>(r * dim) + i), Rounded(static_cast<double>(sum), dtype));
    }
  }
}

TEST(EmbeddingTest, ForwardAddsTokenAndPosition) {
  ForEachCase([](DType dtype, int64_t dim, const Options& options) {
    for (const DType table : {DType::kFloat32, DType::kBFloat16}) {
      ExpectForward(dtype, table, dim, options);
    }
  });
}

TEST(EmbeddingTest, BackwardAddsRowsInOrderAndAccumulates) {
  ForEachCase([](DType dtype, int64_t dim, const Options& options) {
    const Reachable<int32_t> tokens = Tokens(), starts = Starts();
    const Values gradient = Rounded(RandomMatrix(kRows, dim, 3), dtype);
    const Tensor dy(dtype, gradient);
    Tensor dwte(DType::kFloat32, static_cast<size_t>(kVocab * dim));
    Tensor dwpe(DType::kFloat32, static_cast<size_t>(kMaxSeq * dim));
    std::vector<float> want_token(dwte.size(), 0), want_position(dwpe.size(), 0);
    Workspace workspace(KernelsUnderTest().embedding_backward_workspace(kRows, kVocab));
    for (const bool accumulate : {false, true}) {
      KernelsUnderTest().embedding_backward(
          {}, dtype, tokens.data(), options.documents ? starts.data() : nullptr, kRows, kSeq, dim,
          kVocab, kMaxSeq, options.scale, dy.data(), dwte.floats(),
          options.positions ? dwpe.floats() : nullptr, accumulate, workspace.data());
      for (int64_t r = 0; r < kRows; ++r) {
        const size_t position = PositionOf(starts, options.documents, r);
        for (int64_t i = 0; i < dim; ++i) {
          const auto value = static_cast<float>(gradient[static_cast<size_t>(r * dim + i)]);
          const int64_t token = tokens[static_cast<size_t>(r)];
          want_token[static_cast<size_t>(token * dim + i)] += options.scale * value;
          want_position[position * static_cast<size_t>(dim) + static_cast<size_t>(i)] += value;
        }
      }
      // The same additions in the same order: equal to the bit.
      EXPECT_EQ(std::vector<float>(dwte.floats(), dwte.floats() + dwte.size()), want_token);
      if (options.positions) {
        EXPECT_EQ(std::vector<float>(dwpe.floats(), dwpe.floats() + dwpe.size()), want_position);
      }
    }
  });
}

// As a space in a text of bytes: hundreds of rows of one token, others with some more and some fewer
// rows than a GPU adds in one go.
TEST(EmbeddingTest, RowsOfAFrequentTokenAreAddedInOrder) {
  constexpr int64_t kMany = 700, kTokens = 12;
  Reachable<int32_t> tokens(static_cast<size_t>(kMany));
  for (int64_t r = 0; r < kMany; ++r) {
    const int64_t common = r % 7 < 4 ? 3 : 9;
    tokens[static_cast<size_t>(r)] = static_cast<int32_t>(r % 7 == 6 ? r % kTokens : common);
  }
  std::fill_n(tokens.end() - 65, 65, 11);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t dim : {1, 33, 264}) {
      const Values gradient = Rounded(RandomMatrix(kMany, dim, 3), dtype);
      const Tensor dy(dtype, gradient);
      Tensor dwte(DType::kFloat32, static_cast<size_t>(kTokens * dim));
      Workspace workspace(KernelsUnderTest().embedding_backward_workspace(kMany, kTokens));
      std::vector<float> want(dwte.size(), 0);
      for (const bool accumulate : {false, true}) {
        KernelsUnderTest().embedding_backward({}, dtype, tokens.data(), nullptr, kMany, kMany, dim,
                                              kTokens, 0, 1, dy.data(), dwte.floats(), nullptr,
                                              accumulate, workspace.data());
        for (int64_t r = 0; r < kMany; ++r) {
          for (int64_t i = 0; i < dim; ++i) {
            want[static_cast<size_t>(tokens[static_cast<size_t>(r)] * dim + i)] +=
                static_cast<float>(gradient[static_cast<size_t>(r * dim + i)]);
          }
        }
        EXPECT_EQ(std::vector<float>(dwte.floats(), dwte.floats() + dwte.size()), want)
            << DTypeName(dtype) << ", " << dim << " values";
      }
    }
  }
}

// Gemma's scale is the root of the width.
TEST(EmbeddingTest, AnyScaleIsRoundedOnce) {
  constexpr int64_t kDim = 33;
  const float scale = std::sqrt(float{kDim});
  const Reachable<int32_t> tokens = Tokens();
  Tensor wte(DType::kFloat32, RandomMatrix(kVocab, kDim, 1));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Tensor y(dtype, static_cast<size_t>(kRows * kDim));
    KernelsUnderTest().embedding_forward({}, dtype, tokens.data(), nullptr, kRows, kSeq, kDim,
                                         scale, wte.dtype(), wte.data(), nullptr, y.data());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t token = static_cast<size_t>(tokens[i / kDim]);
      const float product = scale * wte.floats()[token * kDim + i % kDim];
      EXPECT_EQ(y.Get(i), Rounded(static_cast<double>(product), dtype));
    }
  }
}

}  // namespace
}  // namespace sluice
