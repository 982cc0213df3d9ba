#include "models/data/images/image_files.h"

#include <sys/stat.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace {

bool IsFile(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// `path`, or the same name with ".gz" added or removed; NotFound when neither file exists.
absl::StatusOr<std::string> PlainOrCompressed(const std::string& path) {
  if (IsFile(path)) return path;
  const size_t plain_size = path.size() > 3 ? path.size() - 3 : 0;
  const std::string other =
      path.substr(plain_size) == ".gz" ? path.substr(0, plain_size) : absl::StrCat(path, ".gz");
  if (IsFile(other)) return other;
  return absl::NotFoundError(absl::StrCat("found neither ", path, " nor ", other));
}

// .../train-images-idx3-ubyte.gz -> .../train-labels-idx1-ubyte.gz
absl::StatusOr<std::string> LabelsBeside(const std::string& images) {
  const size_t base = images.rfind('/') + 1;  // npos + 1 is 0
  const std::string name = images.substr(base);
  const std::string labels = absl::StrReplaceAll(name, {{"images", "labels"}, {"idx3", "idx1"}});
  if (labels == name) {
    return absl::InvalidArgumentError(absl::StrCat(
        images,
        ": cannot tell the name of its labels; expected images in a file named such as "
        "train-images-idx3-ubyte.gz, with train-labels-idx1-ubyte.gz beside it"));
  }
  return PlainOrCompressed(images.substr(0, base) + labels);
}

// The image files of one split ("train" or "t10k") that a directory may hold.
std::optional<std::string> FindImages(const std::string& directory, const char* split) {
  for (const char* infix : {"-images-idx3-ubyte", "-images.idx3-ubyte"}) {
    const absl::StatusOr<std::string> path =
        PlainOrCompressed(absl::StrCat(directory, "/", split, infix));
    if (path.ok()) return *path;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<ImageFiles> FindImageFiles(const std::string& path) {
  if (IsFile(path)) return ImageFiles{path, std::nullopt};
  std::optional<std::string> train = FindImages(path, "train");
  std::optional<std::string> test = FindImages(path, "t10k");
  if (!train) std::swap(train, test);
  if (!train) {
    return absl::NotFoundError(absl::StrCat("no images in the directory ", path,
                                            "; expected train-images-idx3-ubyte or "
                                            "t10k-images-idx3-ubyte, plain or with .gz"));
  }
  return ImageFiles{*std::move(train), std::move(test)};
}

absl::StatusOr<Images> ReadImages(const std::string& path) {
  absl::StatusOr<IdxArray> pixels = ReadIdx(path, kIdxImageDims);
  if (!pixels.ok()) return pixels.status();
  const absl::StatusOr<std::string> labels_path = LabelsBeside(path);
  if (!labels_path.ok()) return labels_path.status();
  absl::StatusOr<IdxArray> labels = ReadIdx(*labels_path, kIdxLabelDims);
  if (!labels.ok()) return labels.status();
  if (pixels->dims[0] != labels->dims[0]) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", pixels->dims[0], " images but ",
                                                   *labels_path, " has ", labels->dims[0],
                                                   " labels; expected one label an image"));
  }
  return Images{*std::move(pixels), *std::move(labels)};
}

}  // namespace sluice
