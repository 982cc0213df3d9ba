#ifndef SLUICE_MODELS_KERNELS_RECORD_SHARED_LAUNCHES_H_
#define SLUICE_MODELS_KERNELS_RECORD_SHARED_LAUNCHES_H_

#include <cstdint>

#include "absl/types/span.h"
#include "models/kernels/kernels.h"
#include "models/kernels/record/kernel_launch.h"
#include "models/spec/dtype.h"

// What the functions of RecordedKernels() share.
namespace sluice::record {

constexpr int64_t kFloat = SizeOf(DType::kFloat32);

// A launch that memory bounds.
void Moves(KernelKind kind, int64_t bytes);

// Sums of columns, and of parts of them, as models/kernels/cuda/column_sums.cu launches them.
void ColumnSums(Stream, DType dtype, absl::Span<const SummedColumns> tensors, bool accumulate,
                void* workspace);
// `count` rows of parts, of so many columns.
void AddParts(int64_t count, int64_t columns, bool accumulate);

// A kernel that moves bytes_of(tensor) of each of these tensors, `most` of them per launch; those
// without any are left out.
template <class Tensor, class BytesOf>
void Listed(KernelKind kind, int most, absl::Span<const Tensor> tensors, const BytesOf& bytes_of) {
  int listed = 0;
  int64_t bytes = 0;
  const auto launch = [&] {
    if (listed > 0) Moves(kind, bytes);
    listed = 0;
    bytes = 0;
  };
  for (const Tensor& tensor : tensors) {
    const int64_t more = bytes_of(tensor);
    if (more == 0) continue;
    if (listed == most) launch();
    ++listed;
    bytes += more;
  }
  launch();
}

void ActivationForward(DType dtype, Activation activation, int64_t n);
void ActivationBackward(DType dtype, Activation activation, int64_t n, bool in_place);
void RoundToBFloat16(int64_t n);

}  // namespace sluice::record

#endif  // SLUICE_MODELS_KERNELS_RECORD_SHARED_LAUNCHES_H_
