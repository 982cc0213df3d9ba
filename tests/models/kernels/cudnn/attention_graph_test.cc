// The graphs that cuDNN is given compute attention: evaluated in fp64, against the kernels' twin.
#include "models/kernels/cudnn/attention_graph.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/cudnn/evaluate.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice::cudnn {
namespace {

AttentionShape Grouped(int64_t batch, int64_t seq, int64_t heads, int64_t kv_heads, int64_t width) {
  AttentionShape shape = PlainShape(DType::kFloat32, batch, seq, heads, width);
  shape.kv_heads = kv_heads;
  shape.q_stride = shape.kv_stride = (heads + 2 * kv_heads) * width;
  return shape;
}

std::vector<AttentionShape> Shapes() {
  return {PlainShape(DType::kFloat32, 1, 1, 1, 8),
          PlainShape(DType::kFloat32, 2, 7, 3, 8),
          PlainShape(DType::kFloat32, 3, 20, 2, 16),
          Grouped(2, 9, 4, 2, 8),
          Grouped(1, 11, 6, 2, 8),
          Grouped(2, 5, 3, 1, 16)};
}

void ExpectSame(const Values& got, const Values& want, const char* name) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << name << " " << i;
}

class AttentionGraphTest : public testing::TestWithParam<AttentionShape> {
 protected:
  AttentionGraphTest()
      : problem_(s_), qkv_(InOneBuffer(s_, problem_.in)), forward_(twin::Attend(s_, problem_.in)) {}

  const AttentionShape s_ = GetParam();
  const Places at_ = PlacesOf(s_);
  AttentionProblem problem_;
  Values qkv_;
  twin::Attended forward_;
};

TEST_P(AttentionGraphTest, Forward) {
  Values out(forward_.out.size()), lse(forward_.lse.size());
  const AttentionForwardGraph made = MakeForwardGraph(s_);
  Evaluate(made.graph, {{made.queries, qkv_.data() + at_.q},
                        {made.keys, qkv_.data() + at_.k},
                        {made.values, qkv_.data() + at_.v},
                        {made.out, out.data()},
                        {made.lse, lse.data()}});
  ExpectSame(out, forward_.out, "out");
  ExpectSame(lse, forward_.lse, "lse");
}

TEST_P(AttentionGraphTest, Backward) {
  Values dqkv(qkv_.size()), row_sums(forward_.lse.size());
  const AttentionBackwardGraph made = MakeBackwardGraph(s_);
  Evaluate(made.graph, {{made.queries, qkv_.data() + at_.q},
                        {made.keys, qkv_.data() + at_.k},
                        {made.values, qkv_.data() + at_.v},
                        {made.out, forward_.out.data()},
                        {made.lse, forward_.lse.data()},
                        {made.dout, problem_.dout.data()},
                        {made.row_sums, row_sums.data()},
                        {made.dqueries, dqkv.data() + at_.q},
                        {made.dkeys, dqkv.data() + at_.k},
                        {made.dvalues, dqkv.data() + at_.v}});
  const twin::QueriesKeysValues want = twin::AttendBackward(s_, problem_.in, problem_.dout);
  ExpectSame(dqkv, InOneBuffer(s_, want), "gradients");
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionGraphTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) {
                           return "seq" + std::to_string(param_info.param.seq);
                         });

}  // namespace
}  // namespace sluice::cudnn
