#ifndef SLUICE_TESTS_MODELS_TWINS_REFERENCE_NORMS_H_
#define SLUICE_TESTS_MODELS_TWINS_REFERENCE_NORMS_H_

#include <cstdint>

#include "models/kernels/kernels.h"

// The norms of ReferenceKernels().
namespace sluice::reference {

void LayerNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon, const void* x,
                      const float* gamma, const float* beta, void* y, float* mean, float* rstd);
void LayerNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                       const void* x, const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial, void*);
void RmsNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                    float gain_offset, const void* x, const float* gamma, const void* residual,
                    void* y, float* rrms);
void RmsNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, float gain_offset,
                     const void* dy, const void* x, const float* gamma, const float* rrms,
                     const void* residual_grad, void* dx, float* partial, void*);

}  // namespace sluice::reference

#endif  // SLUICE_TESTS_MODELS_TWINS_REFERENCE_NORMS_H_
