#ifndef SLUICE_MODELS_KERNELS_CUDA_FUNCTIONS_H_
#define SLUICE_MODELS_KERNELS_CUDA_FUNCTIONS_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "models/kernels/cuda/work_sizes.h"
#include "models/kernels/kernels.h"

// CUDA's entries of the Kernels table (contracts: models/kernels/kernels.h) and the parts that they
// share. Calls queue work and return; errors are recorded for the device's Synchronize (see
// models/device/cuda_error.h). Sizes of work areas are in work_sizes.h.
namespace sluice::cuda {

// Uses cuBLASLt when it runs. Fastest with tensors that are aligned to 16 bytes.
std::unique_ptr<Linear> MakeLinear(const LinearShape& shape);
absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape);

void AttendCached(Stream, const AttentionShape& shape, int64_t positions, int64_t first,
                  const AttentionInput& in, void* cache, void* out, void* workspace);

void EmbeddingForward(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                      int64_t rows, int64_t seq, int64_t dim, float scale, DType table_dtype,
                      const void* wte, const void* wpe, void* y);
void EmbeddingBackward(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                       int64_t rows, int64_t seq, int64_t dim, int64_t vocab, int64_t max_seq,
                       float scale, const void* dy, float* dwte, float* dwpe, bool accumulate,
                       void* workspace);

void LayerNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon, const void* x,
                      const float* gamma, const float* beta, void* y, float* mean, float* rstd);
void LayerNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                       const void* x, const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial, void* workspace);

void RmsNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                    float gain_offset, const void* x, const float* gamma, const void* residual,
                    void* y, float* rrms);
void RmsNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, float gain_offset,
                     const void* dy, const void* x, const float* gamma, const float* rrms,
                     const void* residual_grad, void* dx, float* partial, void* workspace);

void ActivationForward(Stream, DType dtype, Activation activation, int64_t n, const void* x,
                       void* y);
void ActivationBackward(Stream, DType dtype, Activation activation, int64_t n, const void* x,
                        const void* dy, void* dx);
void GatedForward(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                  const void* up, void* y);
void GatedBackward(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                   const void* up, const void* dy, void* dgate, void* dup);

void RopeTable(Stream, int64_t seq, int64_t pairs, const float* inverse_frequencies,
               float magnitude, float* table);
void Rope(Stream, const RopeShape& shape, const float* table, const int32_t* starts, bool inverse,
          void* x);
void RmsNormRopeForward(Stream, const RopeShape& shape, float epsilon, float gain_offset,
                        const void* x, const float* gamma, const float* table,
                        const int32_t* starts, void* y, float* rrms);
void RmsNormRopeBackward(Stream, const RopeShape& shape, float gain_offset, void* dy, const void* x,
                         const float* gamma, const float* rrms, const float* table,
                         const int32_t* starts, void* dx, float* partial, void* workspace);

void CrossEntropy(Stream, const CrossEntropyShape& shape, void* logits, const int32_t* targets,
                  float grad_scale, bool accumulate, double* loss, int64_t* correct,
                  void* workspace);
void SoftCap(Stream, DType dtype, int64_t n, float cap, void* x);
void Dropout(Stream, DType dtype, int64_t n, const DropoutMask& mask, const void* x,
             const void* added, void* y);
void Scale(Stream, DType dtype, int64_t n, float factor, void* x);

void ColumnSums(Stream, DType dtype, absl::Span<const SummedColumns> tensors, bool accumulate,
                void* workspace);
void Accumulate(Stream, absl::Span<const AddedTensor> tensors, bool add);
void BlockSquares(Stream, absl::Span<const SquaredTensor> tensors);
void AddInGroups(Stream, absl::Span<const GroupedSum> rows);
void AllFinite(Stream, DType dtype, int64_t n, const void* x, bool* finite);
void Hash(Stream, absl::Span<const HashedTensor> tensors, uint64_t* parts, uint64_t* hashes);
void AdamW(Stream, const AdamWStep& step, absl::Span<const OptimizerTensor> tensors);
void Sgd(Stream, const SgdStep& step, absl::Span<const OptimizerTensor> tensors);
void Copy(Stream, void* to, const void* from, size_t bytes);

// to[n] in bf16 = from[n], to nearest even.
void ToBFloat16(Stream, int64_t n, const float* from, void* to);

// parts[count, columns], and where the sums down their columns go.
struct SummedParts {
  int64_t count = 0;
  int64_t columns = 0;
  const float* parts = nullptr;
  float* sums = nullptr;
};
// Each one's sums (+)= the sums down its columns.
void AddParts(Stream, absl::Span<const SummedParts> tensors, bool accumulate);

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_FUNCTIONS_H_
