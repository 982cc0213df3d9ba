// The promise that training rests on: one shape, one result to the bit, whichever object or thread
// computes it and whatever lies in the work areas.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <thread>

#include "models/kernels/kernels.h"
#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

using Bits = std::vector<std::vector<char>>;

struct LinearRun {
  explicit LinearRun(const LinearShape& s)
      : shape(s),
        x(s.dtype, RandomMatrix(s.rows, s.in, 1)),
        weight(DType::kFloat32, RandomMatrix(s.in, s.out, 2)),
        bias(DType::kFloat32, RandomValues(static_cast<size_t>(s.out), 3)),
        dy(s.dtype, RandomMatrix(s.rows, s.out, 4)) {}

  Bits Run(Linear* linear) {
    Tensor y(shape.dtype, dy.size());
    Tensor dx(shape.dtype, x.ToValues());  // read where a gradient is added to it
    Tensor dw(DType::kFloat32, weight.size());
    Workspace packed(linear->packed_bytes());
    Workspace forward(linear->forward_workspace());
    Workspace input_grad(linear->input_grad_workspace());
    Workspace weight_grad(linear->weight_grad_workspace());
    linear->Pack({}, weight.floats(), bias.floats(), packed.data());
    linear->Forward({}, x.data(), weight.floats(), packed.data(), bias.floats(), nullptr, y.data(),
                    nullptr, forward.data());
    linear->BackwardInput({}, dy.data(), weight.floats(), packed.data(), nullptr, dx.data(),
                          input_grad.data());
    for (const bool accumulate : {false, true}) {
      weight_grad.Poison();
      linear->BackwardWeight({}, x.data(), dy.data(), dw.floats(), accumulate, weight_grad.data());
    }
    return {y.Bits(), dx.Bits(), dw.Bits()};
  }
  Bits RunNew() { return Run(CpuKernels().make_linear(shape).get()); }

  LinearShape shape;
  Tensor x, weight, bias, dy;
};

// The products of a GPT block of 384, and odd ones.
std::vector<LinearShape> LinearShapes() {
  std::vector<LinearShape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [rows, in, out] : std::vector<std::array<int64_t, 3>>{
             {256, 384, 1152}, {256, 384, 384}, {256, 384, 1536}, {256, 1536, 384}, {33, 70, 19}}) {
      for (const bool adds : {false, true}) {
        shapes.push_back(
            {.rows = rows, .in = in, .out = out, .dtype = dtype, .add_input_grad = adds});
      }
    }
  }
  return shapes;
}

TEST(DeterminismTest, LinearRepeatsItselfInEveryObjectAndThread) {
  omp_set_num_threads(1);
  for (const LinearShape& shape : LinearShapes()) {
    LinearRun run(shape);
    const auto linear = CpuKernels().make_linear(shape);
    const Bits first = run.Run(linear.get());
    EXPECT_EQ(run.Run(linear.get()), first) << "again";
    EXPECT_EQ(run.RunNew(), first) << "another object";
    Bits elsewhere;
    std::thread([&] {
      omp_set_num_threads(1);
      elsewhere = run.RunNew();
    }).join();
    EXPECT_EQ(elsewhere, first) << "another thread";
  }
}

TEST(DeterminismTest, LinearDoesNotDependOnTheNumberOfThreads) {
  for (const LinearShape& shape : LinearShapes()) {
    LinearRun run(shape);
    omp_set_num_threads(1);
    const Bits one = run.RunNew();
    omp_set_num_threads(2);
    const auto made_by_two = CpuKernels().make_linear(shape);
    const Bits two = run.Run(made_by_two.get());
    omp_set_num_threads(1);
    EXPECT_EQ(run.Run(made_by_two.get()), one) << "made under two threads, run by one";
    EXPECT_EQ(two, one) << DTypeName(shape.dtype) << " " << shape.rows << " " << shape.in << " "
                        << shape.out;
  }
}

TEST(DeterminismTest, AttentionRepeatsItselfInEveryObjectAndThread) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AttentionShape shape =
        Fused({.batch = 2, .seq = 75, .heads = 4, .kv_heads = 2, .width = 40, .dtype = dtype});
    for (const int64_t window : {0, 20}) {
      shape.window = window;
      shape.soft_cap = static_cast<float>(window);
      const AttentionProblem problem(shape, RandomStarts(shape, 1));
      const AttentionBits first = RunForBits(CpuKernels(), problem);
      EXPECT_TRUE(RunForBits(CpuKernels(), problem) == first);
      AttentionBits elsewhere;
      std::thread([&] { elsewhere = RunForBits(CpuKernels(), problem); }).join();
      EXPECT_TRUE(elsewhere == first);
    }
  }
}

}  // namespace
}  // namespace sluice
