#include "models/kernels/record/shared_launches.h"

#include "models/kernels/cuda/launch_sizes.h"
#include "models/kernels/cuda/work_sizes.h"
#include "models/kernels/record/launch_record.h"

namespace sluice::record {

void Moves(KernelKind kind, int64_t bytes) {
  LaunchRecord::Add({.kind = kind, .bytes = static_cast<double>(bytes)});
}

void ColumnSums(Stream, DType dtype, absl::Span<const SummedColumns> tensors, bool accumulate,
                void*) {
  const auto parts_of = [](const SummedColumns& tensor) {
    return cuda::ColumnChunks(tensor) * tensor.columns;
  };
  Listed(KernelKind::kColumnSums, cuda::kSummedTensors, tensors, [&](const SummedColumns& tensor) {
    return tensor.rows * tensor.columns * SizeOf(dtype) + parts_of(tensor) * kFloat;
  });
  Listed(KernelKind::kPartSums, cuda::kSummedTensors, tensors, [&](const SummedColumns& tensor) {
    return (parts_of(tensor) + (accumulate ? 2 : 1) * tensor.columns) * kFloat;
  });
}

void AddParts(int64_t count, int64_t columns, bool accumulate) {
  if (columns == 0) return;
  Moves(KernelKind::kPartSums, (count + (accumulate ? 2 : 1)) * columns * kFloat);
}

void RoundToBFloat16(int64_t n) {
  if (n > 0) Moves(KernelKind::kRounding, n * (kFloat + SizeOf(DType::kBFloat16)));
}

void ActivationForward(DType dtype, Activation activation, int64_t n) {
  if (n == 0) return;
  Moves(activation == Activation::kNone ? KernelKind::kCopy : KernelKind::kActivationForward,
        2 * n * SizeOf(dtype));
}

void ActivationBackward(DType dtype, Activation activation, int64_t n, bool in_place) {
  if (n == 0) return;
  if (activation != Activation::kNone) {
    Moves(KernelKind::kActivationBackward, 3 * n * SizeOf(dtype));
  } else if (!in_place) {
    Moves(KernelKind::kCopy, 2 * n * SizeOf(dtype));
  }
}

}  // namespace sluice::record
