#ifndef SLUICE_MODELS_DATA_IMAGES_IDX_H_
#define SLUICE_MODELS_DATA_IMAGES_IDX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, the element type, the
// number of dimensions, each dimension as a big-endian uint32, the elements. Only unsigned bytes
// (type 8) are read.
struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> values;  // product of dims
};

constexpr int kIdxImageDims = 3;  // [images, rows, columns]
constexpr int kIdxLabelDims = 1;  // [images]

// Reads `path`, plain or compressed by gzip, which must have `dims` dimensions. Memory is taken as
// data arrive, so a header that lies about its size costs nothing. NotFound, or InvalidArgument
// (wrong magic, dimensions of 0) or DataLoss (truncated, longer than its header says, damaged gzip)
// name the file, what it holds and what was expected.
absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int dims);

// True when the file begins like an IDX file of bytes or like gzip: OpenDataset then takes it for
// images instead of text.
bool LooksLikeIdx(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_IMAGES_IDX_H_
