// What must work where there is no GPU: to look for the library, and to foretell memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "models/kernels/cuda_kernels.h"

namespace sluice {
namespace {

TEST(CudaPlanningTest, ALibraryIsFoundOrMissed) {
  const absl::Status status = PrepareCudaKernels();
  if (status.ok()) return;
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("missing cuBLASLt: looked for"));
}

TEST(CudaPlanningTest, WorkAreasFollowFromTheShape) {
  const Kernels& k = CudaKernels();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const bool rounds = dtype == DType::kBFloat16;
    const auto linear = k.make_linear({.rows = 1000, .in = 96, .out = 200, .dtype = dtype});
    EXPECT_EQ(linear->packed_bytes(), rounds ? size_t{96} * 200 * 2 + 448 : 0) << "and the bias";
    const size_t product = linear->input_grad_workspace();
    EXPECT_GE(product, size_t{32} << 20);
    EXPECT_EQ(linear->forward_workspace(), product);
    EXPECT_EQ(linear->weight_grad_workspace(), product);
  }
  const SummedColumns bias = {.rows = 1000, .columns = 200};
  const std::vector<SummedColumns> two = {bias, {.rows = 10, .columns = 8}};
  EXPECT_EQ(k.column_sums_workspace({&bias, 1}), size_t{50'432}) << "63 parts of 200 sums";
  EXPECT_EQ(k.column_sums_workspace(two), size_t{50'432 + 64});
  const auto padded = k.make_linear({.rows = 1000,
                                     .in = 96,
                                     .out = 200,
                                     .dtype = DType::kBFloat16,
                                     .weight_transposed = true,
                                     .bias = false,
                                     .padded_out = 256});
  EXPECT_EQ(padded->packed_bytes(), size_t{96} * 256 * 2);
  EXPECT_EQ(k.cross_entropy_workspace(64, 50'000), size_t{64} * 12);
  // Keys, twice, and what goes on beyond two windows of rows.
  EXPECT_EQ(k.embedding_backward_workspace(64, 8), size_t{64} * 16 + size_t{2} * 2 * 8 * 4);
  // Parts of dgamma and dbeta for so many blocks at most, however many rows.
  EXPECT_EQ(k.layer_norm_backward_workspace(4, 64), size_t{2} * 64 * 4);
  for (const auto& [dim, blocks] :
       {std::pair<int64_t, size_t>(64, 1024), {768, 512}, {1024, 384}, {1600, 512}}) {
    const size_t bytes = blocks * static_cast<size_t>(dim) * 4;
    EXPECT_EQ(k.layer_norm_backward_workspace(int64_t{1024} * 300, dim), 2 * bytes) << dim;
    EXPECT_EQ(k.rms_norm_backward_workspace(int64_t{1024} * 300, dim), bytes) << dim;
  }
  EXPECT_EQ(k.rms_norm_backward_workspace(4, 64), size_t{64} * 4);
}

}  // namespace
}  // namespace sluice
