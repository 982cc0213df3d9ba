// What a call allocates: nothing, but for the few small maps in which oneDNN hands a primitive its
// arguments. malloc is replaced for the whole binary, shared libraries included.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "models/kernels/kernels.h"
#include "tests/count_allocations.h"
#include "tests/models/kernels/attention_problem.h"
#include "tests/models/kernels/tensor.h"
#include "tests/product_memory.h"

namespace sluice {
namespace {

// Of the second call: the first may fill caches.
Allocations Count(const std::function<void()>& call) {
  call();
  ResetAllocations();
  call();
  return CountedAllocations();
}

class AllocationTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns malloc";
  }
  void ExpectNone(const std::string& name, const std::function<void()>& call) {
    EXPECT_EQ(Count(call).count, 0) << name;
  }
  // oneDNN's bookkeeping: a handful of hash-map nodes, far below the smallest tensor or work area
  // here.
  void ExpectBookkeeping(const std::string& name, const std::function<void()>& call) {
    constexpr int64_t kMostCount = 40, kMostBytes = 4096, kLargest = 1024;
    const Allocations a = Count(call);
    RecordProperty(name, std::to_string(a.count) + " allocations, " + std::to_string(a.bytes) +
                             " bytes, largest " + std::to_string(a.largest));
    EXPECT_LE(a.count, kMostCount) << name;
    EXPECT_LE(a.bytes, kMostBytes) << name;
    EXPECT_LE(a.largest, kLargest) << name;
    std::printf("  %s %s: %ld allocations, %ld bytes, largest %ld\n", DTypeName(GetParam()),
                name.c_str(), static_cast<long>(a.count), static_cast<long>(a.bytes),
                static_cast<long>(a.largest));
  }
};

TEST_P(AllocationTest, TheCounterCounts) {
  const Allocations a = Count([] {
    volatile char* bytes = new char[12345];
    bytes[0] = 1;
    delete[] bytes;
  });
  EXPECT_EQ(a.count, 1);
  EXPECT_EQ(a.bytes, 12345);
}

TEST_P(AllocationTest, LinearAllocatesNoTensorOrWorkspace) {
  if (!MultipliesInGivenMemory(GetParam()))
    GTEST_SKIP() << "oneDNN's GEMM copies operands into memory of its own";
  const LinearShape shape = {.rows = 70,
                             .in = 99,
                             .out = 130,
                             .dtype = GetParam(),
                             .activation = Activation::kGelu,
                             .input_activation = Activation::kGelu};
  const auto linear = CpuKernels().make_linear(shape);
  const Tensor x(shape.dtype, RandomMatrix(70, 99, 1)), dy(shape.dtype, RandomMatrix(70, 130, 2));
  Tensor y(shape.dtype, dy.size()), activated(shape.dtype, dy.size()), dx(shape.dtype, x.size());
  Tensor weight(DType::kFloat32, RandomMatrix(99, 130, 3)), dw(DType::kFloat32, weight.size());
  Tensor bias(DType::kFloat32, RandomValues(130, 4));
  Workspace packed(linear->packed_bytes()), forward(linear->forward_workspace());
  Workspace input_grad(linear->input_grad_workspace()),
      weight_grad(linear->weight_grad_workspace());
  ExpectBookkeeping("Pack",
                    [&] { linear->Pack({}, weight.floats(), bias.floats(), packed.data()); });
  for (const bool residual : {false, true}) {
    ExpectBookkeeping(residual ? "Forward with residual" : "Forward", [&] {
      linear->Forward({}, x.data(), weight.floats(), packed.data(), bias.floats(),
                      residual ? dy.data() : nullptr, y.data(), activated.data(), forward.data());
    });
  }
  ExpectBookkeeping("BackwardInput", [&] {
    linear->BackwardInput({}, dy.data(), weight.floats(), packed.data(), x.data(), dx.data(),
                          input_grad.data());
  });
  for (const bool accumulate : {false, true}) {
    ExpectBookkeeping(accumulate ? "BackwardWeight, accumulating" : "BackwardWeight", [&] {
      linear->BackwardWeight({}, x.data(), dy.data(), dw.floats(), accumulate, weight_grad.data());
    });
  }
}

TEST_P(AllocationTest, AttentionAllocatesNothing) {
  AttentionShape shape = Separate(
      {.batch = 2, .seq = 50, .heads = 4, .kv_heads = 2, .width = 20, .dtype = GetParam()});
  for (const int64_t window : {0, 9}) {
    shape.window = window;
    shape.soft_cap = static_cast<float>(window);
    const AttentionProblem problem(shape, RandomStarts(shape, 1));
    const auto attention = *CpuKernels().make_attention(shape);
    AttentionTensors<Tensor> tensors(problem, *attention);
    ExpectNone("forward", [&] { tensors.Forward({}); });
    ExpectNone("backward", [&] { tensors.Backward({}); });
  }
}

TEST_P(AllocationTest, FreeFunctionsAllocateNothing) {
  const Kernels& k = CpuKernels();
  const DType dtype = GetParam();
  constexpr int64_t kRows = 20, kDim = 33, kN = kRows * kDim;
  Tensor x(dtype, RandomValues(kN, 1)), y(dtype, RandomValues(kN, 2)), dx(dtype, size_t{kN});
  Tensor a(DType::kFloat32, RandomValues(kN, 3)), b(DType::kFloat32, RandomValues(kN, 4));
  Tensor m(DType::kFloat32, Values(kN, 0)), v(DType::kFloat32, Values(kN, 0));
  const std::vector<int32_t> tokens(kRows, 3);
  double loss = 0, squares = 0, sums[2] = {};
  int64_t correct = 0;
  bool finite = false;
  ExpectNone("embedding", [&] {
    k.embedding_forward({}, dtype, tokens.data(), nullptr, kRows, 10, kDim, 1, DType::kFloat32,
                        a.floats(), b.floats(), y.data());
    k.embedding_backward({}, dtype, tokens.data(), nullptr, kRows, 10, kDim, 20, 10, 1, y.data(),
                         m.floats(), v.floats(), false, nullptr);
  });
  ExpectNone("layer norm", [&] {
    k.layer_norm_forward({}, dtype, kRows, kDim, 1e-5f, x.data(), a.floats(), b.floats(), y.data(),
                         m.floats(), v.floats());
    k.layer_norm_backward({}, dtype, kRows, kDim, y.data(), x.data(), a.floats(), m.floats(),
                          v.floats(), nullptr, dx.data(), b.floats(), nullptr);
  });
  ExpectNone("RMS norm", [&] {
    k.rms_norm_forward({}, dtype, kRows, kDim, 1e-5f, 0, x.data(), a.floats(), nullptr, y.data(),
                       m.floats());
    k.rms_norm_backward({}, dtype, kRows, kDim, 0, y.data(), x.data(), a.floats(), m.floats(),
                        nullptr, dx.data(), b.floats(), nullptr);
  });
  ExpectNone("activation", [&] {
    k.activation_forward({}, dtype, Activation::kGelu, kN, x.data(), y.data());
    k.activation_backward({}, dtype, Activation::kGelu, kN, x.data(), y.data(), dx.data());
  });
  ExpectNone("gated", [&] {
    k.gated_forward({}, dtype, Activation::kSilu, kN, x.data(), y.data(), dx.data());
    k.gated_backward({}, dtype, Activation::kSilu, kN, x.data(), y.data(), dx.data(), dx.data(),
                     y.data());
  });
  ExpectNone("rotary positions", [&] {
    k.rope_table({}, 10, 16, a.floats(), 1, b.floats());
    k.rope({}, {.rows = kRows, .seq = 10, .heads = 1, .width = 32, .stride = kDim, .dtype = dtype},
           b.floats(), nullptr, false, y.data());
  });
  Workspace of_rows(k.cross_entropy_workspace(kRows, kDim));
  ExpectNone("cross-entropy", [&] {
    const CrossEntropyShape shape = {.dtype = dtype, .rows = kRows, .classes = kDim};
    k.cross_entropy({}, shape, dx.data(), tokens.data(), 0.5f, false, &loss, &correct,
                    of_rows.data());
    k.soft_cap({}, dtype, kN, 30, dx.data());
  });
  ExpectNone("sums", [&] {
    const AddedTensor added = {kN, a.floats(), b.floats()};
    k.accumulate({}, {&added, 1}, true);
    const SummedColumns columns = {kRows, kDim, x.data(), b.floats()};
    k.column_sums({}, dtype, {&columns, 1}, true, nullptr);
    const SquaredTensor gradient = {kN, a.floats(), &squares};
    k.block_squares({}, {&gradient, 1});
    const GroupedSum row = {.n = 1, .values = &squares, .sums = sums};
    k.add_in_groups({}, {&row, 1});
    k.all_finite({}, dtype, kN, x.data(), &finite);
  });
  ExpectNone("optimizer", [&] {
    const OptimizerTensor tensor = {.n = kN,
                                    .weight = a.floats(),
                                    .gradient = b.floats(),
                                    .moment1 = m.floats(),
                                    .moment2 = v.floats()};
    k.adamw({}, {.lr = 0.1f}, {&tensor, 1});
    k.sgd({}, {.lr = 0.1f, .momentum = 0.9f}, {&tensor, 1});
  });
}

INSTANTIATE_TEST_SUITE_P(Types, AllocationTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& param_info) { return DTypeName(param_info.param); });

}  // namespace
}  // namespace sluice
