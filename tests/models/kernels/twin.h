#ifndef SLUICE_TESTS_MODELS_KERNELS_TWIN_H_
#define SLUICE_TESTS_MODELS_KERNELS_TWIN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "models/kernels/kernels.h"
#include "tests/models/kernels/tensor.h"

// The kernels once more, in fp64 and as short as their formulas. twin_test.cc holds the gradients
// here against central differences.
namespace sluice::twin {

double Activate(Activation activation, double x);
double ActivationSlope(Activation activation, double x);

// a[m, k] * b[k, n], each optionally stored transposed.
Values Product(int64_t m, int64_t k, int64_t n, const Values& a, bool a_transposed, const Values& b,
               bool b_transposed);

struct Norm {
  Values y, mean, rstd;  // mean of a layer norm only
};
Norm LayerNorm(int64_t rows, int64_t dim, double epsilon, const Values& x, const Values& gamma,
               const Values& beta);
Norm RmsNorm(int64_t rows, int64_t dim, double epsilon, const Values& x, const Values& gamma);
struct NormGradient {
  Values dx, dgamma, dbeta;  // dbeta of a layer norm only
};
NormGradient LayerNormBackward(int64_t rows, int64_t dim, double epsilon, const Values& dy,
                               const Values& x, const Values& gamma);
NormGradient RmsNormBackward(int64_t rows, int64_t dim, double epsilon, const Values& dy,
                             const Values& x, const Values& gamma);

struct Attended {
  Values out, lse;
};
Attended Attend(const AttentionShape& shape, const Values& qkv);
Values AttendBackward(const AttentionShape& shape, const Values& qkv, const Values& dout);

struct Loss {
  double sum = 0;
  int64_t correct = 0;
  Values dlogits;  // of the sum
};
Loss CrossEntropy(int64_t rows, int64_t classes, const Values& logits,
                  const std::vector<int32_t>& targets);

// Gradient of f at x, by central differences.
Values Differences(const std::function<double(const Values&)>& f, Values x);
double Dot(const Values& a, const Values& b);

}  // namespace sluice::twin

#endif  // SLUICE_TESTS_MODELS_KERNELS_TWIN_H_
