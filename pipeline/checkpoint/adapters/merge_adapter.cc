#include "pipeline/checkpoint/adapters/merge_adapter.h"

#include <cstddef>
#include <memory>
#include <vector>

#include "models/kernels/kernels.h"
#include "pipeline/state/arena.h"

namespace sluice {
namespace {

size_t Elements(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

// [columns, rows] of [rows, columns].
std::vector<float> Turned(int64_t rows, int64_t columns, const std::vector<float>& values) {
  std::vector<float> turned(values.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      turned[Elements(c, rows) + static_cast<size_t>(r)] =
          values[Elements(r, columns) + static_cast<size_t>(c)];
  }
  return turned;
}

}  // namespace

absl::Status MergeAdapter(const AdapterFolder& adapter, const LinearMap& map, bool transposed,
                          float* weight) {
  const int64_t rank = adapter.lora.rank;
  std::vector<float> a(Elements(rank, map.in)), b(Elements(map.out, rank));
  absl::Status status = adapter.tensors->Read(AdapterA(map.name), {rank, map.in}, a.data());
  if (status.ok()) status = adapter.tensors->Read(AdapterB(map.name), {map.out, rank}, b.data());
  if (!status.ok()) return status;
  const auto scale = static_cast<float>(adapter.lora.scale());
  for (float& value : b) value *= scale;
  // The sum as one product: B times A, or A^T times B^T.
  if (transposed) a = Turned(rank, map.in, a);
  const std::vector<float>&left = transposed ? a : b, &right = transposed ? b : a;
  const LinearShape shape = {.rows = transposed ? map.in : map.out,
                             .in = rank,
                             .out = transposed ? map.out : map.in,
                             .weight_transposed = transposed,
                             .bias = false};
  const std::unique_ptr<Linear> product = CpuKernels().make_linear(shape);
  absl::StatusOr<Arena> workspace =
      Arena::Allocate(CpuDevice(), static_cast<int64_t>(product->forward_workspace()));
  if (!workspace.ok()) return workspace.status();
  std::vector<float> added(Elements(map.in, map.out));
  product->Pack({}, right.data(), nullptr, nullptr);
  product->Forward({}, left.data(), right.data(), nullptr, nullptr, nullptr, added.data(), nullptr,
                   workspace->at(0));
  for (size_t i = 0; i < added.size(); ++i) weight[i] += added[i];
  return absl::OkStatus();
}

}  // namespace sluice
