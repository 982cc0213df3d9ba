// The graphs that cuDNN is given compute attention: evaluated in fp64, against the kernels' twin.
#include "models/kernels/cudnn/attention_graph.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/models/kernels/cudnn/evaluate.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice::cudnn {
namespace {

std::vector<AttentionShape> Shapes() {
  return {{.batch = 1, .seq = 1, .dim = 8, .heads = 1},
          {.batch = 2, .seq = 7, .dim = 24, .heads = 3},
          {.batch = 3, .seq = 20, .dim = 32, .heads = 2}};
}

void ExpectSame(const Values& got, const Values& want, const char* name) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << name << " " << i;
}

class AttentionGraphTest : public testing::TestWithParam<AttentionShape> {
 protected:
  AttentionGraphTest()
      : qkv_(RandomMatrix(s_.batch * s_.seq, 3 * s_.dim, 1, -2, 2)),
        dout_(RandomMatrix(s_.batch * s_.seq, s_.dim, 2)),
        forward_(twin::Attend(s_, qkv_)) {}

  const AttentionShape s_ = GetParam();
  Values qkv_, dout_;
  twin::Attended forward_;
};

TEST_P(AttentionGraphTest, Forward) {
  Values out(forward_.out.size()), lse(forward_.lse.size());
  const AttentionForwardGraph made = MakeForwardGraph(s_);
  Evaluate(made.graph, {{made.queries, qkv_.data()},
                        {made.keys, qkv_.data() + s_.dim},
                        {made.values, qkv_.data() + 2 * s_.dim},
                        {made.out, out.data()},
                        {made.lse, lse.data()}});
  ExpectSame(out, forward_.out, "out");
  ExpectSame(lse, forward_.lse, "lse");
}

TEST_P(AttentionGraphTest, Backward) {
  Values dqkv(qkv_.size()), row_sums(forward_.lse.size());
  const AttentionBackwardGraph made = MakeBackwardGraph(s_);
  Evaluate(made.graph, {{made.queries, qkv_.data()},
                        {made.keys, qkv_.data() + s_.dim},
                        {made.values, qkv_.data() + 2 * s_.dim},
                        {made.out, forward_.out.data()},
                        {made.lse, forward_.lse.data()},
                        {made.dout, dout_.data()},
                        {made.row_sums, row_sums.data()},
                        {made.dqueries, dqkv.data()},
                        {made.dkeys, dqkv.data() + s_.dim},
                        {made.dvalues, dqkv.data() + 2 * s_.dim}});
  ExpectSame(dqkv, twin::AttendBackward(s_, qkv_, dout_), "dqkv");
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionGraphTest, testing::ValuesIn(Shapes()),
                         [](const auto& param_info) {
                           return "seq" + std::to_string(param_info.param.seq);
                         });

}  // namespace
}  // namespace sluice::cudnn
