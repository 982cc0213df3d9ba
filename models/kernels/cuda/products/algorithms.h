#ifndef SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHMS_H_
#define SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHMS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/kernels/cuda/products/matmul_shape.h"

// Which of cuBLASLt's algorithms a product of matrices takes. The library offers several for each
// shape, and the one that it puts first is often not the fastest: on an H200 others save 3 to 5 % of
// a step. Algorithms add in different orders, so a run's bits depend on them: they are measured
// once, kept in a file, and all ranks take those of the file.
namespace sluice {

// The algorithm of the products of one shape.
struct ProductAlgorithm {
  // What the library describes an algorithm by (cublasLtMatmulAlgo_t), which its documentation lets
  // us keep for the same version of the library.
  using Words = std::array<uint64_t, 8>;

  cuda::MatmulShape shape;
  Words words = {};
  double seconds = 0;        // the least that the product took
  double first_seconds = 0;  // that by the algorithm that the library puts first

  friend bool operator==(const ProductAlgorithm&, const ProductAlgorithm&) = default;
};

struct ProductAlgorithms {
  std::string gpu;                         // "NVIDIA H200"
  int64_t cublaslt = 0;                    // the library's version, as it gives it
  std::vector<ProductAlgorithm> products;  // no two of one shape

  friend bool operator==(const ProductAlgorithms&, const ProductAlgorithms&) = default;
};

// As a JSON document, and from one; InvalidArgument names `file`, the field, and what was expected.
std::string FormatAlgorithms(const ProductAlgorithms& algorithms);
absl::StatusOr<ProductAlgorithms> ParseAlgorithms(absl::string_view text, absl::string_view file);

// The following are of this process, and of all its GPUs.

// Lets products take these, and those of other shapes what the library puts first; to be called
// before the first product. FailedPrecondition where they are of another version of the library, or
// of another GPU than `gpu`, and in a build without CUDA. An algorithm that the library refuses, or
// that would add in an order of its own each time, is an error of the product.
absl::Status UseAlgorithms(const ProductAlgorithms& algorithms, absl::string_view gpu);

// From now on the first product of a shape that is made runs by each algorithm that the library
// offers, on memory of its own, and takes the fastest one.
void MeasureAlgorithms();
// Those that were measured since, by shape; as if on `gpu`.
absl::StatusOr<ProductAlgorithms> MeasuredAlgorithms(absl::string_view gpu);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_CUDA_PRODUCTS_ALGORITHMS_H_
