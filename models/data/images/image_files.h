#ifndef SLUICE_MODELS_DATA_IMAGES_IMAGE_FILES_H_
#define SLUICE_MODELS_DATA_IMAGES_IMAGE_FILES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/images/idx.h"

namespace sluice {

struct Images {
  IdxArray pixels;  // [images, rows, columns]
  IdxArray labels;  // [images]
  int64_t count() const { return pixels.dims[0]; }
};

// The image files that a data set is read from.
struct ImageFiles {
  std::string train;
  std::optional<std::string> test;
};

// `path` itself if it is a file; of a directory its train-images-idx3-ubyte and
// t10k-images-idx3-ubyte, plain or with .gz (if there is but one of the two, it is `train`).
// NotFound says which names were expected.
absl::StatusOr<ImageFiles> FindImageFiles(const std::string& path);

// The images of `path` and the labels beside it, at least one of each. Errors are those of ReadIdx;
// also an error where the numbers of images and labels differ.
absl::StatusOr<Images> ReadImages(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_IMAGES_IMAGE_FILES_H_
