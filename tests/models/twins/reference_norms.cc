#include "tests/models/twins/reference_norms.h"

#include <cmath>
#include <vector>

#include "tests/models/twins/reference_values.h"

namespace sluice::reference {

// Ba et al. 2016, equation 3.
void LayerNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon, const void* x,
                      const float* gamma, const float* beta, void* y, float* mean, float* rstd) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = r * dim;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < dim; ++c) sum += Get(dtype, x, row + c);
    const double mu = sum / static_cast<double>(dim);
    for (int64_t c = 0; c < dim; ++c) squares += std::pow(Get(dtype, x, row + c) - mu, 2);
    mean[r] = static_cast<float>(mu);
    rstd[r] = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(dim) + epsilon));
    for (int64_t c = 0; c < dim; ++c) {
      const double normalized = (Get(dtype, x, row + c) - mean[r]) * rstd[r];
      Set(dtype, y, row + c, normalized * gamma[c] + beta[c]);
    }
  }
}

void LayerNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                       const void* x, const float* gamma, const float* mean, const float* rstd,
                       const void* residual_grad, void* dx, float* partial, void*) {
  std::vector<double> dgamma(static_cast<size_t>(dim)), dbeta(static_cast<size_t>(dim));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = r * dim;
    const auto normalized = [&](int64_t c) { return (Get(dtype, x, row + c) - mean[r]) * rstd[r]; };
    double sum = 0, dot = 0;
    for (int64_t c = 0; c < dim; ++c) {
      const double d = Get(dtype, dy, row + c);
      dgamma[c] += d * normalized(c);
      dbeta[c] += d;
      sum += d * gamma[c];
      dot += d * gamma[c] * normalized(c);
    }
    const double n = static_cast<double>(dim);
    for (int64_t c = 0; c < dim; ++c) {
      const double d = Get(dtype, dy, row + c) * gamma[c];
      const double residual = residual_grad ? Get(dtype, residual_grad, row + c) : 0;
      Set(dtype, dx, row + c, residual + rstd[r] * (d - sum / n - normalized(c) * dot / n));
    }
  }
  if (partial == nullptr) return;
  for (int64_t c = 0; c < dim; ++c) {
    partial[c] = static_cast<float>(dgamma[c]);
    partial[dim + c] = static_cast<float>(dbeta[c]);
  }
}

// Zhang and Sennrich 2019, equation 4.
void RmsNormForward(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                    float gain_offset, const void* x, const float* gamma, const void* residual,
                    void* y, float* rrms) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = r * dim;
    double squares = 0;
    for (int64_t c = 0; c < dim; ++c) squares += std::pow(Get(dtype, x, row + c), 2);
    rrms[r] = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(dim) + epsilon));
    for (int64_t c = 0; c < dim; ++c) {
      const double added = residual ? Get(dtype, residual, row + c) : 0;
      const double gain = double{gain_offset} + gamma[c];
      Set(dtype, y, row + c, added + Get(dtype, x, row + c) * rrms[r] * gain);
    }
  }
}

void RmsNormBackward(Stream, DType dtype, int64_t rows, int64_t dim, float gain_offset,
                     const void* dy, const void* x, const float* gamma, const float* rrms,
                     const void* residual_grad, void* dx, float* partial, void*) {
  std::vector<double> dgamma(static_cast<size_t>(dim));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = r * dim;
    const auto normalized = [&](int64_t c) { return Get(dtype, x, row + c) * rrms[r]; };
    double dot = 0;
    for (int64_t c = 0; c < dim; ++c) {
      dgamma[c] += Get(dtype, dy, row + c) * normalized(c);
      dot += Get(dtype, dy, row + c) * (double{gain_offset} + gamma[c]) * normalized(c);
    }
    for (int64_t c = 0; c < dim; ++c) {
      const double d = Get(dtype, dy, row + c) * (double{gain_offset} + gamma[c]);
      const double residual = residual_grad ? Get(dtype, residual_grad, row + c) : 0;
      const double along = normalized(c) * dot / static_cast<double>(dim);
      Set(dtype, dx, row + c, residual + rrms[r] * (d - along));
    }
  }
  if (partial == nullptr) return;
  for (int64_t c = 0; c < dim; ++c) partial[c] = static_cast<float>(dgamma[c]);
}

}  // namespace sluice::reference
