#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/images/image_files.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"
#include "models/spec/bfloat16.h"

namespace sluice {
namespace {

constexpr int kByteValues = 256;

class ImageDataset : public Dataset {
 public:
  // Without `test`, the last `validation` of `train` is held out, one at least unless it is 0.
  ImageDataset(Images train, std::optional<Images> test, double validation, uint64_t seed)
      : train_(std::move(train)),
        test_(std::move(test)),
        validation_share_(test_ ? 0 : validation),
        seed_(seed) {
    train_count_ = train_.count();
    if (validation_share_ > 0) {
      train_count_ -= std::max<int64_t>(1, HeldOut(train_.count(), validation_share_));
    }
    pixels_ = train_.pixels.dims[1] * train_.pixels.dims[2];
    classes_ = 1 + *std::max_element(train_.labels.values.begin(), train_.labels.values.end());
    if (test_) {
      const std::vector<uint8_t>& labels = test_->labels.values;
      classes_ = std::max(classes_, 1 + *std::max_element(labels.begin(), labels.end()));
    }
    FillTables();
  }

  std::string description() const override {
    return absl::StrCat("images: ", GroupDigits(train_count_), " of ", train_.pixels.dims[1], " x ",
                        train_.pixels.dims[2], " for training, ",
                        GroupDigits(samples(Split::kValidation)), " for validation (",
                        HeldOutText(), "), ", classes_, " classes");
  }

  int64_t samples(Split split) const override {
    if (split == Split::kTrain) return train_count_;
    return test_ ? test_->count() : train_.count() - train_count_;
  }

  int classes() const override { return classes_; }
  int64_t input_size() const override { return pixels_; }
  DType input_dtype() const override { return DType::kFloat32; }

  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override {
    assert(dtype != DType::kInt32 && index >= 0 && size >= 0);
    const bool from_test = split == Split::kValidation && test_;
    const Images& images = from_test ? *test_ : train_;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t image = ImageOf(split, index * size + i);
      const uint8_t* const source = images.pixels.values.data() + image * pixels_;
      if (out.input != nullptr && dtype == DType::kBFloat16) {
        Convert(source, as_bfloat16_, static_cast<uint16_t*>(out.input) + i * pixels_);
      } else if (out.input != nullptr) {
        Convert(source, as_float_, static_cast<float*>(out.input) + i * pixels_);
      }
      if (out.targets != nullptr) {
        out.targets[i] = images.labels.values[static_cast<size_t>(image)];
      }
    }
  }

 protected:
  std::string MakeFingerprint() const override {
    uint64_t hash = 0;
    Hash(train_, hash);
    if (test_) Hash(*test_, hash);
    std::string text =
        absl::StrFormat("images:%dx%dx%d:%016x", train_.count() + (test_ ? test_->count() : 0),
                        train_.pixels.dims[1], train_.pixels.dims[2], hash);
    if (!test_ && validation_share_ != Validation().share) {
      absl::StrAppend(&text, ":validation:", validation_share_);
    }
    return text;
  }

 private:
  std::string HeldOutText() const {
    if (test_) return "the t10k files";
    return absl::StrCat("the last ", validation_share_ * 100, " %");
  }

  static void Hash(const Images& images, uint64_t& hash) {
    for (const std::vector<uint8_t>* part : {&images.pixels.values, &images.labels.values}) {
      hash = XXH3_64bits_withSeed(part->data(), part->size(), hash);
    }
  }

  template <typename T>
  void Convert(const uint8_t* source, const std::array<T, kByteValues>& table, T* out) const {
    std::transform(source, source + pixels_, out, [&table](uint8_t byte) { return table[byte]; });
  }

  int64_t ImageOf(Split split, int64_t number) const {
    const Position at = PositionOf(number, samples(split));
    if (split == Split::kTrain) {
      return Permutation(train_count_, seed_, static_cast<uint64_t>(at.epoch))(at.sample);
    }
    return test_ ? at.sample : train_count_ + at.sample;
  }

  // The value for each byte: (byte - mean) / deviation. The sums are of integers, so they are
  // exact.
  void FillTables() {
    std::array<uint64_t, kByteValues> histogram = {};
    const uint64_t count = static_cast<uint64_t>(train_count_ * pixels_);
    for (uint64_t i = 0; i < count; ++i) ++histogram[train_.pixels.values[i]];
    double sum = 0;
    double squares = 0;
    for (int byte = 0; byte < kByteValues; ++byte) {
      const double times = static_cast<double>(histogram[static_cast<size_t>(byte)]);
      sum += times * byte;
      squares += times * byte * byte;
    }
    const double mean = sum / static_cast<double>(count);
    const double variance = squares / static_cast<double>(count) - mean * mean;
    // Rounding may leave a tiny variance where all pixels are equal. The variance of pixels that
    // differ by one unit of grey is far above it.
    const double deviation = variance > 1e-6 ? std::sqrt(variance) : 1;
    for (size_t byte = 0; byte < kByteValues; ++byte) {
      as_float_[byte] = static_cast<float>((static_cast<double>(byte) - mean) / deviation);
      as_bfloat16_[byte] = ToBFloat16(as_float_[byte]);
    }
  }

  Images train_;
  std::optional<Images> test_;
  double validation_share_;
  uint64_t seed_;
  int64_t train_count_ = 0;
  int64_t pixels_ = 0;
  int classes_ = 0;
  std::array<float, kByteValues> as_float_ = {};
  std::array<uint16_t, kByteValues> as_bfloat16_ = {};
};

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const std::string& path, Images train,
                                                     std::optional<Images> test, double validation,
                                                     uint64_t seed) {
  if (!test && validation > 0 && train.count() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has 1 image; expected at least 2, one to train on and one held out"));
  }
  return std::make_unique<ImageDataset>(std::move(train), std::move(test), validation, seed);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenImageDataset(const std::string& path,
                                                          double validation, uint64_t seed) {
  const absl::StatusOr<ImageFiles> files = FindImageFiles(path);
  if (!files.ok()) return files.status();
  absl::StatusOr<Images> train = ReadImages(files->train);
  if (!train.ok()) return train.status();
  if (!files->test)
    return MakeDataset(files->train, *std::move(train), std::nullopt, validation, seed);
  absl::StatusOr<Images> test = ReadImages(*files->test);
  if (!test.ok()) return test.status();
  const std::vector<int64_t>& a = train->pixels.dims;
  const std::vector<int64_t>& b = test->pixels.dims;
  if (a[1] != b[1] || a[2] != b[2]) {
    return absl::InvalidArgumentError(absl::StrCat(files->train, " has images of ", a[1], " x ",
                                                   a[2], " but ", *files->test, " of ", b[1], " x ",
                                                   b[2], "; expected the same size"));
  }
  return MakeDataset(files->train, *std::move(train), *std::move(test), validation, seed);
}

}  // namespace sluice
