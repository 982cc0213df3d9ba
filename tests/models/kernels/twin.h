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
Norm RmsNorm(int64_t rows, int64_t dim, double epsilon, const Values& x, const Values& gain);
struct NormGradient {
  Values dx, dgamma, dbeta;  // dbeta of a layer norm only
};
NormGradient LayerNormBackward(int64_t rows, int64_t dim, double epsilon, const Values& dy,
                               const Values& x, const Values& gamma);
NormGradient RmsNormBackward(int64_t rows, int64_t dim, double epsilon, const Values& dy,
                             const Values& x, const Values& gain);

// activation(gate) * up, and the gradients of gate and up.
Values Gated(Activation activation, const Values& gate, const Values& up);
struct GatedGradient {
  Values gate, up;
};
GatedGradient GatedBackward(Activation activation, const Values& gate, const Values& up,
                            const Values& dy);

// The cosines, then the sines of every position up to seq.
Values RopeTable(int64_t seq, const Values& inverse_frequencies, double magnitude);
// x [rows, stride] with each of its heads turned; `starts` may be empty.
Values Rope(const RopeShape& shape, const Values& table, const std::vector<int32_t>& starts,
            Values x);

struct Attended {
  Values out, lse;
};
// q is [batch * seq, heads * width], k and v [batch * seq, kv_heads * width], whatever the shape's
// strides; so are their gradients.
struct QueriesKeysValues {
  Values q, k, v;
};
// `starts` may be empty.
using Starts = std::vector<int32_t>;
Attended Attend(const AttentionShape& shape, const QueriesKeysValues& in,
                const Starts& starts = {});
QueriesKeysValues AttendBackward(const AttentionShape& shape, const QueriesKeysValues& in,
                                 const Values& dout, const Starts& starts = {});

// table[entry of the row, :] += scale * row, in fp32. Rows are sorted by their entries, those of one
// entry in their order, and divided into windows of so many. An entry whose rows lie in one window
// has them added one after the other; one of several windows has the sums of its rows in each added.
void AddRows(const std::vector<int64_t>& entries, const Values& rows, int64_t dim, float scale,
             int64_t window, std::vector<float>* table);

struct Loss {
  double sum = 0;
  int64_t correct = 0;
  Values dlogits;  // of the sum
};
// Of the capped logits where `soft_cap` is not 0; a target below 0 counts nowhere.
Loss CrossEntropy(int64_t rows, int64_t classes, const Values& logits,
                  const std::vector<int32_t>& targets, double soft_cap = 0);
Values SoftCap(double cap, Values x);

// Gradient of f at x, by central differences.
Values Differences(const std::function<double(const Values&)>& f, Values x);
double Dot(const Values& a, const Values& b);

}  // namespace sluice::twin

#endif  // SLUICE_TESTS_MODELS_KERNELS_TWIN_H_
