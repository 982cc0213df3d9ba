#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

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

std::vector<float> Floats(Tensor& tensor) {
  return {tensor.floats(), tensor.floats() + tensor.size()};
}

// The same additions in the same order: equal to the bit.
TEST(EmbeddingTest, BackwardAddsRowsInOrderAndAccumulates) {
  ForEachCase([](DType dtype, int64_t dim, const Options& options) {
    const Reachable<int32_t> tokens = Tokens(), starts = Starts();
    const Values gradient = Rounded(RandomMatrix(kRows, dim, 3), dtype);
    const Tensor dy(dtype, gradient);
    Tensor dwte(DType::kFloat32, static_cast<size_t>(kVocab * dim));
    Tensor dwpe(DType::kFloat32, static_cast<size_t>(kMaxSeq * dim));
    std::vector<float> want_token(dwte.size(), 0), want_position(dwpe.size(), 0);
    std::vector<int64_t> positions;
    for (int64_t r = 0; r < kRows; ++r) {
      positions.push_back(static_cast<int64_t>(PositionOf(starts, options.documents, r)));
    }
    Workspace workspace(KernelsUnderTest().embedding_backward_workspace(kRows, dim));
    for (const bool accumulate : {false, true}) {
      KernelsUnderTest().embedding_backward(
          {}, dtype, tokens.data(), options.documents ? starts.data() : nullptr, kRows, kSeq, dim,
          kVocab, kMaxSeq, options.scale, dy.data(), dwte.floats(),
          options.positions ? dwpe.floats() : nullptr, accumulate, workspace.data());
      twin::AddRows({tokens.begin(), tokens.end()}, gradient, dim, options.scale, RowWindow(),
                    &want_token);
      twin::AddRows(positions, gradient, dim, 1, RowWindow(), &want_position);
      EXPECT_EQ(Floats(dwte), want_token);
      if (options.positions) {
        EXPECT_EQ(Floats(dwpe), want_position);
      }
    }
  });
}

// As a space in a text of bytes: hundreds of rows of one token. Of others as many, one more or one
// fewer than a GPU adds in one go, from a place where that begins, and from others.
TEST(EmbeddingTest, RowsOfAFrequentTokenAreAddedInOrder) {
  constexpr int64_t kTokens = 12;
  const std::vector<int> counts_of_tokens[] = {
      {32, 64, 31, 33, 1, 0, 95, 3, 400, 30, 2, 1}, {700}, {1, 32, 32, 31, 64, 65, 63, 1}};
  for (const std::vector<int>& counts : counts_of_tokens) {
    Reachable<int32_t> tokens;
    for (size_t token = 0; token < counts.size(); ++token) {
      tokens.insert(tokens.end(), static_cast<size_t>(counts[token]), static_cast<int32_t>(token));
    }
    std::shuffle(tokens.begin(), tokens.end(), std::mt19937_64(5));
    const auto rows = static_cast<int64_t>(tokens.size());
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t dim : {1, 33, 264, 1032}) {
        const Values gradient = Rounded(RandomMatrix(rows, dim, 3), dtype);
        const Tensor dy(dtype, gradient);
        Tensor dwte(DType::kFloat32, static_cast<size_t>(kTokens * dim));
        Workspace workspace(KernelsUnderTest().embedding_backward_workspace(rows, dim));
        std::vector<float> want(dwte.size(), 0);
        for (const bool accumulate : {false, true}) {
          KernelsUnderTest().embedding_backward({}, dtype, tokens.data(), nullptr, rows, rows, dim,
                                                kTokens, 0, 0.5f, dy.data(), dwte.floats(), nullptr,
                                                accumulate, workspace.data());
          twin::AddRows({tokens.begin(), tokens.end()}, gradient, dim, 0.5f, RowWindow(), &want);
          EXPECT_EQ(Floats(dwte), want) << DTypeName(dtype) << ", " << dim << " values";
        }
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
