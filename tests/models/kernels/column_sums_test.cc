#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

// A GPU adds chunks of 16 rows or, of the last, of 128.
constexpr std::pair<int64_t, int64_t> kShapes[] = {
    {1, 1}, {1, 264}, {15, 8}, {63, 33}, {65, 8}, {65, 264}, {200, 1}, {200, 33}, {65'700, 8}};

// Several tensors in one call, and more of them than a GPU takes in one launch.
TEST(ColumnSumsTest, OverwriteThenAccumulate) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::deque<Values> values;
    std::deque<Tensor> tensors, sums;
    std::vector<SummedColumns> summed;
    for (int copies = 0; copies < 2; ++copies) {
      for (const auto& [rows, columns] : kShapes) {
        values.push_back(Rounded(RandomMatrix(rows, columns, values.size()), dtype));
        tensors.emplace_back(dtype, values.back());
        sums.emplace_back(DType::kFloat32, static_cast<size_t>(columns));
        summed.push_back({rows, columns, tensors.back().data(), sums.back().floats()});
      }
    }
    Workspace workspace(KernelsUnderTest().column_sums_workspace(summed));
    for (const int times : {1, 2}) {
      workspace.Poison();
      KernelsUnderTest().column_sums({}, dtype, summed, times > 1, workspace.data());
      for (size_t t = 0; t < summed.size(); ++t) {
        Values want(sums[t].size(), 0);
        for (size_t i = 0; i < values[t].size(); ++i) want[i % want.size()] += times * values[t][i];
        ExpectClose(sums[t], want, 1e-6, SumTolerance(2 * summed[t].rows), "sums");
      }
    }
  }
}

// What else is in a call does not matter.
TEST(ColumnSumsTest, OfOneTensorAreThoseOfMany) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::deque<Tensor> tensors, together, alone;
    std::vector<SummedColumns> summed;
    for (const auto& [rows, columns] : kShapes) {
      tensors.emplace_back(dtype, RandomMatrix(rows, columns, tensors.size()));
      together.emplace_back(DType::kFloat32, static_cast<size_t>(columns));
      alone.emplace_back(DType::kFloat32, static_cast<size_t>(columns));
      summed.push_back({rows, columns, tensors.back().data(), together.back().floats()});
    }
    Workspace workspace(KernelsUnderTest().column_sums_workspace(summed));
    KernelsUnderTest().column_sums({}, dtype, summed, false, workspace.data());
    for (size_t t = 0; t < summed.size(); ++t) {
      SummedColumns one = summed[t];
      one.sums = alone[t].floats();
      Workspace of_one(KernelsUnderTest().column_sums_workspace({&one, 1}));
      KernelsUnderTest().column_sums({}, dtype, {&one, 1}, false, of_one.data());
      EXPECT_EQ(alone[t].Bits(), together[t].Bits());
    }
  }
}

}  // namespace
}  // namespace sluice
