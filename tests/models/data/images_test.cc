#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/images/idx.h"
#include "models/data/open_dataset.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr int64_t kPixels = 6;

// Image i is made of the bytes 6 * i + first, ...; its label is i modulo `classes`.
void WriteSet(const std::string& prefix, uint32_t images, int first, int classes, bool gzip) {
  std::string pixels;
  std::string labels;
  for (uint32_t i = 0; i < images; ++i) {
    for (int p = 0; p < kPixels; ++p) pixels += static_cast<char>(first + kPixels * i + p);
    labels += static_cast<char>(static_cast<int>(i) % classes);
  }
  const std::string image_bytes = Idx({images, 2, 3}, pixels);
  const std::string label_bytes = Idx({images}, labels);
  const std::string end = gzip ? ".gz" : "";
  WriteBytes(prefix + "-images-idx3-ubyte" + end, gzip ? Gzip(image_bytes) : image_bytes);
  WriteBytes(prefix + "-labels-idx1-ubyte" + end, gzip ? Gzip(label_bytes) : label_bytes);
}

std::unique_ptr<Dataset> Open(const std::string& path, uint64_t seed = 1) {
  absl::StatusOr<std::unique_ptr<Dataset>> data =
      OpenDataset({.path = path, .seq = 1, .seed = seed});
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : nullptr;
}

struct Batch {
  std::vector<float> pixels;
  std::vector<int32_t> labels;
  bool operator==(const Batch&) const = default;
};

Batch Get(const Dataset& data, Split split, int64_t index, int64_t size) {
  Batch batch = {std::vector<float>(static_cast<size_t>(size * data.input_size())),
                 std::vector<int32_t>(static_cast<size_t>(size))};
  data.Fill(split, index, size, DType::kFloat32,
            {.input = batch.pixels.data(), .targets = batch.labels.data()});
  return batch;
}

TEST(ImagesTest, UsesTheTestFilesForValidation) {
  TempFolder folder;
  for (const bool gzip : {false, true}) {
    WriteSet(folder / "train", 20, 0, 4, gzip);
    WriteSet(folder / "t10k", 5, 100, 7, !gzip);
    const auto data = Open(folder.path());
    EXPECT_EQ(data->description(),
              "images: 20 of 2 x 3 for training, 5 for validation (the t10k files), 5 classes");
    EXPECT_EQ(data->samples(Split::kTrain), 20);
    EXPECT_EQ(data->samples(Split::kValidation), 5);
    EXPECT_EQ(data->classes(), 5);
    EXPECT_EQ(data->input_size(), kPixels);
    EXPECT_EQ(data->input_dtype(), DType::kFloat32);
    EXPECT_EQ(Get(*data, Split::kValidation, 0, 5).labels, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  }
}

TEST(ImagesTest, HoldsOutTheLastTenthOtherwise) {
  TempFolder folder;
  WriteSet(folder / "t10k", 30, 0, 30, true);
  for (const std::string& path : {folder.path(), folder / "t10k-images-idx3-ubyte.gz"}) {
    const auto data = Open(path);
    EXPECT_EQ(data->samples(Split::kTrain), 27);
    EXPECT_EQ(Get(*data, Split::kValidation, 0, 3).labels, (std::vector<int32_t>{27, 28, 29}));
    std::set<int32_t> train;
    for (const int32_t label : Get(*data, Split::kTrain, 0, 27).labels) train.insert(label);
    EXPECT_EQ(train.size(), 27u);
    EXPECT_EQ(*train.rbegin(), 26);
  }
}

TEST(ImagesTest, EachEpochIsAPermutationAndPixelsFollowLabels) {
  TempFolder folder;
  WriteSet(folder / "train", 40, 0, 40, false);
  const auto data = Open(folder.path());
  const Batch twice = Get(*data, Split::kTrain, 0, 72);
  const std::vector<int32_t> first(twice.labels.begin(), twice.labels.begin() + 36);
  const std::vector<int32_t> second(twice.labels.begin() + 36, twice.labels.end());
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()),
            std::set<int32_t>(second.begin(), second.end()));
  // One grey level is the same step everywhere, so pixels tell which image they are from.
  const float step = twice.pixels[1] - twice.pixels[0];
  for (size_t i = 0; i < 72; ++i) {
    const float offset = twice.pixels[i * kPixels] - twice.pixels[0];
    EXPECT_NEAR(offset / step, kPixels * (twice.labels[i] - twice.labels[0]), 1e-3);
  }
}

TEST(ImagesTest, PixelsHaveMeanZeroAndDeviationOne) {
  TempFolder folder;
  WriteSet(folder / "train", 37, 5, 10, true);
  const auto data = Open(folder.path());
  double sum = 0;
  double squares = 0;
  const Batch all = Get(*data, Split::kTrain, 0, data->samples(Split::kTrain));
  for (const float pixel : all.pixels) {
    sum += pixel;
    squares += double{pixel} * pixel;
  }
  const double count = static_cast<double>(all.pixels.size());
  EXPECT_NEAR(sum / count, 0, 1e-6);
  EXPECT_NEAR(squares / count, 1, 1e-6);
}

TEST(ImagesTest, EqualPixelsGiveZeros) {
  TempFolder folder;
  WriteBytes(folder / "train-images-idx3-ubyte", Idx({10, 1, 3}, std::string(30, '\xfe')));
  WriteBytes(folder / "train-labels-idx1-ubyte", Idx({10}, std::string(10, 1)));
  for (const float pixel : Get(*Open(folder.path()), Split::kTrain, 0, 9).pixels) {
    EXPECT_EQ(pixel, 0.0f);
  }
}

float FromBFloat16(uint16_t value) {
  const uint32_t bits = uint32_t{value} << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// Nearest: no neighbour is closer. Even: of two that are equally close, the one whose last bit is
// 0.
TEST(ImagesTest, BFloat16IsRoundedToNearestEven) {
  TempFolder folder;
  WriteSet(folder / "train", 42, 0, 10, false);
  const auto data = Open(folder.path());
  const int64_t n = data->samples(Split::kTrain);
  const Batch exact = Get(*data, Split::kTrain, 0, n);
  std::vector<uint16_t> rounded(exact.pixels.size());
  data->Fill(Split::kTrain, 0, n, DType::kBFloat16, {.input = rounded.data()});
  for (size_t i = 0; i < rounded.size(); ++i) {
    const double error = std::abs(double{exact.pixels[i]} - FromBFloat16(rounded[i]));
    for (const int delta : {-1, 1}) {
      const double other = std::abs(double{exact.pixels[i]} -
                                    FromBFloat16(static_cast<uint16_t>(rounded[i] + delta)));
      EXPECT_TRUE(error < other || (error == other && rounded[i] % 2 == 0)) << exact.pixels[i];
    }
  }
}

TEST(ImagesTest, ThreadsShareItAndSeedsDiffer) {
  TempFolder folder;
  WriteSet(folder / "train", 42, 0, 10, true);
  const auto data = Open(folder.path());
  const Batch expected = Get(*data, Split::kTrain, 3, 500);
  std::vector<Batch> got(4);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (Batch& batch : got) {
    threads.emplace_back([&] { batch = Get(*data, Split::kTrain, 3, 500); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Batch& batch : got) EXPECT_EQ(batch, expected);
  EXPECT_NE(Get(*Open(folder.path(), 2), Split::kTrain, 3, 500), expected);
}

TEST(ImagesTest, FingerprintsTellDataApart) {
  TempFolder folder;
  WriteSet(folder / "train", 42, 0, 10, true);
  const std::string before = Open(folder.path())->fingerprint();
  EXPECT_EQ(before, Open(folder.path(), 5)->fingerprint());
  WriteSet(folder / "train", 42, 0, 9, true);  // other labels
  EXPECT_NE(before, Open(folder.path())->fingerprint());
}

// Fails with `code`, naming the file `culprit`.
std::string Error(const std::string& path, const std::string& culprit, absl::StatusCode code) {
  const absl::Status status = OpenDataset({.path = path, .seq = 1}).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(status.message(), HasSubstr(culprit));
  return std::string(status.message());
}

class BadImagesTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteSet(folder_ / "train", 20, 0, 4, false); }
  // The error of opening the folder once the images are `bytes`.
  std::string ImageError(const std::string& bytes, absl::StatusCode code) {
    WriteBytes(images_, bytes);
    return Error(folder_.path(), images_, code);
  }

  TempFolder folder_;
  std::string images_ = folder_ / "train-images-idx3-ubyte";
  std::string labels_ = folder_ / "train-labels-idx1-ubyte";
};

TEST_F(BadImagesTest, MissingFiles) {
  TempFolder empty;
  EXPECT_THAT(Error(empty.path(), empty.path(), kNotFound), HasSubstr("train-images-idx3-ubyte"));
  Error(empty / "train-images-idx3-ubyte.gz", empty.path(), kNotFound);
  std::filesystem::remove(labels_);
  EXPECT_THAT(Error(folder_.path(), labels_, kNotFound), HasSubstr(labels_ + ".gz"));
  std::filesystem::rename(images_, folder_ / "pictures");
  EXPECT_THAT(Error(folder_ / "pictures", "pictures", kInvalid), HasSubstr("train-labels"));
}

TEST_F(BadImagesTest, EmptyAndTruncated) {
  const std::string whole = ReadBytes(images_);
  EXPECT_THAT(ImageError("", kInvalid), HasSubstr("is empty"));
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THAT(ImageError(whole.substr(0, size), kDataLoss), HasSubstr("truncated"));
  }
  EXPECT_THAT(ImageError(whole.substr(0, 50), kDataLoss),
              HasSubstr("34 bytes of data, expected 20 x 2 x 3 = 120"));
  EXPECT_THAT(ImageError(whole + "x", kDataLoss), HasSubstr("longer than its header says"));
}

TEST_F(BadImagesTest, TruncatedGzip) {
  std::filesystem::remove(images_);
  images_ += ".gz";
  WriteSet(folder_ / "train", 20, 0, 4, true);
  const std::string whole = ReadBytes(images_);
  for (size_t size = 2; size < whole.size(); ++size) {
    EXPECT_THAT(ImageError(whole.substr(0, size), kDataLoss), HasSubstr("truncated")) << size;
  }
}

TEST_F(BadImagesTest, WrongMagicAndDimensions) {
  EXPECT_THAT(ImageError(ReadBytes(labels_), kInvalid),
              HasSubstr("starts with 0x00000801; expected the IDX magic 0x00000803"));
  EXPECT_THAT(ImageError("In the beginning God created", kInvalid), HasSubstr("0x496e2074"));
  EXPECT_THAT(ImageError(Idx({0, 2, 3}, ""), kInvalid), HasSubstr("0 x 2 x 3"));
  EXPECT_THAT(ImageError(Idx({20, 0, 3}, ""), kInvalid), HasSubstr("expected at least 1 each"));
}

TEST_F(BadImagesTest, HeadersThatLieAboutTheSizeTakeNoMemory) {
  const std::string some(1000, 'x');
  EXPECT_THAT(ImageError(Idx({1'000'000'000, 1000, 1000}, some), kDataLoss),
              HasSubstr("1000 bytes of data"));
  EXPECT_THAT(ImageError(Idx({0xffffffff, 0xffffffff, 0xffffffff}, some), kInvalid),
              HasSubstr("too many elements"));
}

TEST_F(BadImagesTest, CountsAndSizesThatDiffer) {
  WriteBytes(labels_, Idx({19}, std::string(19, 1)));
  EXPECT_THAT(Error(folder_.path(), labels_, kInvalid),
              AllOf(HasSubstr("20 images"), HasSubstr("19 labels")));
  WriteSet(folder_ / "train", 20, 0, 4, false);
  WriteSet(folder_ / "t10k", 20, 0, 4, false);
  WriteBytes(folder_ / "t10k-images-idx3-ubyte", Idx({20, 3, 2}, std::string(120, 1)));
  EXPECT_THAT(Error(folder_.path(), images_, kInvalid),
              AllOf(HasSubstr("2 x 3"), HasSubstr("3 x 2")));
  TempFolder one;
  WriteSet(one / "train", 1, 0, 1, false);
  EXPECT_THAT(Error(one.path(), "train-images", kInvalid), HasSubstr("at least 2"));
}

TEST_F(BadImagesTest, CompressedText) {
  WriteBytes(folder_ / "text.gz", Gzip("In the beginning God created"));
  EXPECT_THAT(Error(folder_ / "text.gz", "text.gz", kInvalid), HasSubstr("unpack it first"));
}

// Reads `whole` with every byte changed in several ways; `check` gets what was accepted.
template <typename Check>
void ReadMutations(const std::string& path, const std::string& whole, Check check) {
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x04, 0x10, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      WriteBytes(path, bytes);
      const absl::StatusOr<IdxArray> array = ReadIdx(path, kIdxImageDims);
      if (array.ok()) {
        check(std::string(array->values.begin(), array->values.end()));
      } else {
        ASSERT_THAT(array.status().message(), HasSubstr(path));
      }
    }
  }
}

// Never a crash. gzip carries a checksum, so what is read from a damaged one is an error or what
// was written.
TEST_F(BadImagesTest, MutatedFiles) {
  const std::string pixels(120, '\x07');
  const std::string plain = Idx({20, 2, 3}, pixels);
  int accepted = 0;
  ReadMutations(folder_ / "plain", plain, [&](const std::string& values) {
    EXPECT_EQ(values.size(), pixels.size());
    ++accepted;
  });
  EXPECT_EQ(accepted, 5 * 120);  // the pixels themselves may be anything
  ReadMutations(folder_ / "gzip", Gzip(plain),
                [&](const std::string& values) { EXPECT_EQ(values, pixels); });
}

TEST(FashionMnistTest, IsReadAsDebianShipsIt) {
  const std::string path = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs Debian's dataset-fashion-mnist";
  const auto data = Open(path);
  EXPECT_EQ(data->description(),
            "images: 60,000 of 28 x 28 for training, 10,000 for validation (the t10k files), 10 "
            "classes");
  // https://github.com/zalandoresearch/fashion-mnist: 6,000 training examples of each class.
  std::vector<int> counts(10);
  for (const int32_t label : Get(*data, Split::kTrain, 0, 60'000).labels) {
    ++counts[static_cast<size_t>(label)];
  }
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
}

}  // namespace
}  // namespace sluice
