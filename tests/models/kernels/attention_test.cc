#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_format.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {
namespace {

// Lengths around the tile (12), panel (32), block (48) and padding (96) of
// models/kernels/cpu/attention.h.
std::vector<AttentionShape> Shapes() {
  std::vector<AttentionShape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t seq : {1, 2, 11, 12, 13, 31, 33, 47, 49, 64, 96, 97, 150}) {
      shapes.push_back({.batch = 2, .seq = seq, .dim = 48, .heads = 3, .dtype = dtype});
    }
    for (const int64_t width : {1, 4, 5, 17, 31, 32, 33, 64, 80, 128}) {
      shapes.push_back({.batch = 1, .seq = 37, .dim = 2 * width, .heads = 2, .dtype = dtype});
    }
  }
  return shapes;
}

class AttentionTest : public testing::TestWithParam<AttentionShape> {
 protected:
  AttentionTest()
      : shape_(GetParam()),
        attention_(*CpuKernels().make_attention(shape_)),
        rows_(shape_.batch * shape_.seq),
        qkv_(Rounded(RandomValues(static_cast<size_t>(rows_ * 3 * shape_.dim), 1, -2, 2),
                     shape_.dtype)) {}

  const AttentionShape shape_;
  const std::unique_ptr<Attention> attention_;
  const int64_t rows_;
  const Values qkv_;
};

TEST_P(AttentionTest, Forward) {
  const twin::Attended want = twin::Attend(shape_, qkv_);
  const Tensor qkv(shape_.dtype, qkv_);
  Tensor out(shape_.dtype, want.out.size());
  Tensor lse(DType::kFloat32, want.lse.size());
  Workspace workspace(attention_->forward_workspace());
  attention_->Forward({}, qkv.data(), out.data(), lse.floats(), workspace.data());
  ExpectClose(out, want.out, Epsilon(shape_.dtype), 1e-5, "out");
  ExpectClose(lse, want.lse, 1e-6, 1e-5, "lse");
}

TEST_P(AttentionTest, Backward) {
  const twin::Attended forward = twin::Attend(shape_, qkv_);
  const Values gradient = Rounded(RandomMatrix(rows_, shape_.dim, 2), shape_.dtype);
  const Tensor qkv(shape_.dtype, qkv_);
  const Tensor out(shape_.dtype, forward.out);
  Tensor lse(DType::kFloat32, forward.lse);
  const Tensor dout(shape_.dtype, gradient);
  Tensor dqkv(shape_.dtype, qkv_.size());
  Workspace workspace(attention_->backward_workspace());
  attention_->Backward({}, qkv.data(), out.data(), lse.floats(), dout.data(), dqkv.data(),
                       workspace.data());
  // The stored output is rounded too, and enters every gradient through rowsum(dout * out).
  const double absolute = shape_.dtype == DType::kBFloat16 ? 0.02 : 2e-5;
  ExpectClose(dqkv, twin::AttendBackward(shape_, qkv_, gradient), Epsilon(shape_.dtype), absolute,
              "dqkv");
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) {
                           const AttentionShape& s = param_info.param;
                           return absl::StrFormat("%s_seq%d_heads%d_of%d", DTypeName(s.dtype),
                                                  s.seq, s.heads, s.dim / s.heads);
                         });

// Scores of several hundred overflow e^x unless the largest is taken off first.
TEST(AttentionRangeTest, LargeScoresStayFinite) {
  const AttentionShape shape = {.batch = 1, .seq = 40, .dim = 16, .heads = 1};
  const Values values = RandomMatrix(40, 48, 3, -40, 40);
  const Tensor qkv(DType::kFloat32, values);
  Tensor out(DType::kFloat32, size_t{40} * 16);
  Tensor lse(DType::kFloat32, 40);
  const auto attention = *CpuKernels().make_attention(shape);
  Workspace workspace(attention->forward_workspace());
  attention->Forward({}, qkv.data(), out.data(), lse.floats(), workspace.data());
  const twin::Attended want = twin::Attend(shape, Rounded(values, DType::kFloat32));
  ExpectClose(out, want.out, 1e-3, 1e-2, "out");
  ExpectClose(lse, want.lse, 1e-5, 1e-5, "lse");
}

// Position t must not change when a later position does.
TEST(AttentionCausalityTest, TheFutureDoesNotMatter) {
  const AttentionShape shape = {.batch = 1, .seq = 70, .dim = 8, .heads = 2};
  constexpr size_t kChanged = 41;
  Values values = RandomMatrix(70, 24, 4);
  const auto attention = *CpuKernels().make_attention(shape);
  Workspace workspace(attention->forward_workspace());
  Tensor lse(DType::kFloat32, 140);
  const auto run = [&] {
    const Tensor qkv(DType::kFloat32, values);
    Tensor out(DType::kFloat32, size_t{70} * 8);
    attention->Forward({}, qkv.data(), out.data(), lse.floats(), workspace.data());
    return out.ToValues();
  };
  const Values before = run();
  for (size_t i = kChanged * 24; i < values.size(); ++i) values[i] = 9;
  const Values after = run();
  for (size_t i = 0; i < kChanged * 8; ++i) ASSERT_EQ(before[i], after[i]) << "element " << i;
  EXPECT_NE(before[kChanged * 8], after[kChanged * 8]);
}

// A diverged run must show, not be hidden by a softmax that drops NaNs.
TEST(AttentionRangeTest, NaNReachesTheOutput) {
  const AttentionShape shape = {.batch = 1, .seq = 20, .dim = 8, .heads = 1};
  Values values = RandomMatrix(20, 24, 5);
  values[3 * 24 + 8] = std::nan("");  // a key
  const Tensor qkv(DType::kFloat32, values);
  Tensor out(DType::kFloat32, size_t{20} * 8);
  Tensor lse(DType::kFloat32, 20);
  const auto attention = *CpuKernels().make_attention(shape);
  Workspace workspace(attention->forward_workspace());
  attention->Forward({}, qkv.data(), out.data(), lse.floats(), workspace.data());
  EXPECT_FALSE(std::isnan(out.Get(size_t{2} * 8)));
  for (size_t t = 3; t < 20; ++t) EXPECT_TRUE(std::isnan(out.Get(t * 8))) << "position " << t;
}

}  // namespace
}  // namespace sluice
