#ifndef SLUICE_TESTS_MODELS_KERNELS_TENSOR_H_
#define SLUICE_TESTS_MODELS_KERNELS_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/spec/dtype.h"
#include "tests/models/kernels/reachable.h"

namespace sluice {

using Values = std::vector<double>;

// What is left of a value once it is stored as `dtype`.
double Rounded(double value, DType dtype);
Values Rounded(Values values, DType dtype);
Values RandomValues(size_t n, uint64_t seed, double low = -1, double high = 1);
Values RandomMatrix(int64_t rows, int64_t columns, uint64_t seed, double low = -1, double high = 1);

// A buffer as a kernel sees it: one element off every alignment (aligned to 64 bytes where the
// environment has SLUICE_TEST_ALIGNED), NaN until written, and between two canaries that are
// checked when it dies.
class Tensor {
 public:
  Tensor(DType dtype, size_t n);
  Tensor(DType dtype, const Values& values);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor();

  void* data() { return bytes_.data() + offset_; }
  const void* data() const { return bytes_.data() + offset_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  size_t size() const { return n_; }
  size_t bytes() const { return n_ * static_cast<size_t>(SizeOf(dtype_)); }
  DType dtype() const { return dtype_; }

  double Get(size_t i) const;
  void Set(size_t i, double value);
  Values ToValues() const;
  std::vector<char> Bits() const;

 private:
  DType dtype_;
  size_t n_;
  size_t offset_;
  Reachable<char> bytes_;
};

// A work area: 64-byte aligned, exactly as large as asked for, full of NaN, between canaries.
class Workspace {
 public:
  explicit Workspace(size_t bytes);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();
  void* data() { return start_; }
  void Poison();

 private:
  size_t bytes_;
  Reachable<char> storage_;
  char* start_;
};

// Every |got - want| <= relative * |want| + absolute; says where the worst one is.
void ExpectClose(const Tensor& got, const Values& want, double relative, double absolute,
                 const std::string& what);

// The relative error of one rounding to `dtype`, and of a sum of `terms` products of values of
// about 1.
double Epsilon(DType dtype);
double SumTolerance(int64_t terms);

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_KERNELS_TENSOR_H_
