#include "models/files/safetensors.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/models/data/files.h"
#include "tests/models/data/full_disk.h"
#include "tests/models/files/write_safetensors.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

// Written by the safetensors package 0.8.0 from PyTorch 2.15:
//   save({"a": [[1.5, -2], [0, 3.25]], "h": F16 [1, -0.5, 65504], "b": BF16 [1, -3], "s": 7 (no
//   dimensions),
//         "e": zeros(0, 3)}, metadata={"format": "pt"})
constexpr char kOfficial[] =
    "38010000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074227d2c2261223a7b2264"
    "74797065223a22463332222c227368617065223a5b322c325d2c22646174615f6f666673657473223a5b302c31365d"
    "7d2c2265223a7b226474797065223a22463332222c227368617065223a5b302c335d2c22646174615f6f6666736574"
    "73223a5b31362c31365d7d2c2273223a7b226474797065223a22463332222c227368617065223a5b5d2c2264617461"
    "5f6f666673657473223a5b31362c32305d7d2c2262223a7b226474797065223a2242463136222c227368617065223a"
    "5b325d2c22646174615f6f666673657473223a5b32302c32345d7d2c2268223a7b226474797065223a22463136222c"
    "227368617065223a5b335d2c22646174615f6f666673657473223a5b32342c33305d7d7d20200000c03f000000c000"
    "000000000050400000e040803f40c0003c00b8ff7b";

std::string WithHeader(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::unique_ptr<SafetensorsFile> Open() {
    absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }
  // The error of opening `bytes`, which must be of `code` and name the file.
  std::string Error(const std::string& bytes, absl::StatusCode code) {
    WriteBytes(path_, bytes);
    const absl::Status status = SafetensorsFile::Open(path_).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(path_));
    return std::string(status.message());
  }
  std::vector<float> Read(const std::string& name, const std::vector<int64_t>& shape) {
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    std::vector<float> values(count);
    const absl::Status status = Open()->Read(name, shape, values.data());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }

  TempFolder folder_;
  std::string path_ = folder_ / "model.safetensors";
  std::vector<float> a_ = {1, -2, 3, 4.5f, -0.0f, 1e-40f};
  std::vector<float> b_ = {std::numeric_limits<float>::infinity(), 7};
  std::vector<TensorSource> tensors_ = {
      {"z.weight", {2, 3}, a_.data()}, {"empty", {0, 4}, nullptr}, {"b", {}, b_.data() + 1}};
};

TEST_F(SafetensorsTest, ReadsWhatTheOfficialPackageWrites) {
  WriteBytes(path_, absl::HexStringToBytes(kOfficial));
  const auto file = Open();
  EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  std::vector<std::string> names;
  for (const TensorEntry& entry : file->entries()) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("a", "e", "s", "b", "h"));
  EXPECT_THAT(Read("a", {2, 2}), ElementsAre(1.5f, -2, 0, 3.25f));
  EXPECT_THAT(Read("h", {3}), ElementsAre(1, -0.5f, 65504));
  EXPECT_THAT(Read("b", {2}), ElementsAre(1, -3));
  EXPECT_THAT(Read("s", {}), ElementsAre(7));
  EXPECT_THAT(Read("e", {0, 3}), ElementsAre());
}

TEST_F(SafetensorsTest, RoundTripsEveryBit) {
  ASSERT_TRUE(WriteSafetensors(path_, tensors_, {{"format", "pt"}, {"note", "\"ü\"\n"}}).ok());
  const auto file = Open();
  EXPECT_EQ(file->metadata().at("note"), "\"ü\"\n");
  ASSERT_EQ(file->entries().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file->entries()[i].name, tensors_[i].name);
    EXPECT_EQ(file->entries()[i].shape, tensors_[i].shape);
  }
  EXPECT_EQ(Bits(Read("z.weight", {2, 3})), Bits(a_));
  EXPECT_THAT(Read("b", {}), ElementsAre(7));
}

TEST_F(SafetensorsTest, DataBeginAtAMultipleOfEightBytes) {
  for (size_t length = 1; length < 20; ++length) {
    tensors_[0].name = std::string(length, 'n');
    ASSERT_TRUE(WriteSafetensors(path_, tensors_, {}).ok());
    EXPECT_EQ((ReadBytes(path_).size() - 28) % 8, 0u);
    Open();
  }
}

// By the definition of IEEE 754: (-1)^s 2^(e-15) (1 + f / 1024), and the subnormals below.
TEST_F(SafetensorsTest, ConvertsEveryHalf) {
  std::string halves;
  for (int i = 0; i < 65536; ++i) {
    halves += static_cast<char>(i & 0xff);
    halves += static_cast<char>(i >> 8);
  }
  WriteBytes(path_, WithHeader(R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})",
                               halves));
  const std::vector<float> values = Read("h", {65536});
  for (int i = 0; i < 65536; ++i) {
    const float value = values[static_cast<size_t>(i)];
    const int exponent = (i >> 10) & 0x1f;
    const int fraction = i & 0x3ff;
    ASSERT_EQ(std::signbit(value), i >= 0x8000) << i;
    if (exponent == 31 && fraction != 0) {
      ASSERT_TRUE(std::isnan(value)) << i;
    } else if (exponent == 31) {
      ASSERT_TRUE(std::isinf(value)) << i;
    } else {
      const double expected =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(std::abs(double{value}), expected) << i;
    }
  }
}

TEST_F(SafetensorsTest, ReadNamesWhatDiffers) {
  ASSERT_TRUE(WriteSafetensors(path_, tensors_, {}).ok());
  float out = 0;
  const absl::Status missing = Open()->Read("c", {1}, &out);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("has no tensor 'c'"));
  const absl::Status shape = Open()->Read("z.weight", {3, 2}, &out);
  EXPECT_EQ(shape.code(), kInvalid);
  EXPECT_THAT(shape.message(), HasSubstr("'z.weight' has shape [2, 3], expected [3, 2]"));
  WriteBytes(path_,
             WithHeader(R"({"i":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  EXPECT_THAT(Open()->Read("i", {1}, &out).message(), HasSubstr("is I32, expected F32"));
}

TEST_F(SafetensorsTest, WriterRefusesWhatNoReaderWouldTake) {
  for (const char* name : {"b", "__metadata__", "\xff\xfe"}) {
    tensors_[0].name = name;
    EXPECT_EQ(WriteSafetensors(path_, tensors_, {}).code(), kInvalid) << name;
  }
  tensors_[0] = {"a", {2, -3}, a_.data()};
  EXPECT_EQ(WriteSafetensors(path_, tensors_, {}).code(), kInvalid);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SafetensorsTest, EveryTruncationIsDetected) {
  const std::string whole = absl::HexStringToBytes(kOfficial);
  for (size_t size = 0; size < whole.size(); ++size) Error(whole.substr(0, size), kDataLoss);
  EXPECT_THAT(Error(whole + "x", kInvalid), HasSubstr("31 bytes of data, its header expects 30"));
}

TEST_F(SafetensorsTest, BadHeaders) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const auto error = [&](const std::string& header, int bytes = 8) {
    return Error(WithHeader(header, std::string(static_cast<size_t>(bytes), '\0')), kInvalid);
  };
  EXPECT_THAT(error("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error(""), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error("{" + a), HasSubstr("its header: line 1, column 54: not valid JSON"));
  EXPECT_THAT(error("{\"\xff\":1}"), HasSubstr("line 1, column 3: not valid JSON"));
  EXPECT_THAT(error(std::string(100'000, '{')), HasSubstr("line 1, column 2: not valid JSON"));
  EXPECT_THAT(error("{\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}"),
              HasSubstr("line 1, column 37: nested more than 32 deep"));
  EXPECT_THAT(error("{" + a + "," + a + "}", 4), HasSubstr("field \"a\" is given twice"));
  EXPECT_THAT(error(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
              HasSubstr("line 1, column 21: field \"dtype\" is given twice"));
  EXPECT_THAT(error("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})", 9),
              HasSubstr("'b': leaves a gap: begins at 5, expected 4"));
  EXPECT_THAT(error("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6),
              HasSubstr("'b': overlaps: begins at 2, expected 4"));
  EXPECT_THAT(error("{" + a + "}", 8), HasSubstr("8 bytes of data, its header expects 4"));
  EXPECT_THAT(error(R"({"__metadata__":{"a":1}})", 0), HasSubstr("'a' is not a string"));
  EXPECT_THAT(error(R"({"a":3})"), HasSubstr("'a': expected an object"));
}

TEST_F(SafetensorsTest, BadTensors) {
  const auto error = [&](const char* dtype, const char* shape, const char* offsets) {
    return Error(WithHeader(absl::StrCat("{\"a\":{\"dtype\":", dtype, ",\"shape\":", shape,
                                         ",\"data_offsets\":", offsets, "}}"),
                            "12345678"),
                 kInvalid);
  };
  EXPECT_THAT(error("\"F31\"", "[2]", "[0,8]"), HasSubstr("unknown dtype 'F31'"));
  EXPECT_THAT(error("7", "[2]", "[0,8]"), HasSubstr("expected a dtype"));
  for (const char* shape : {"2", "[-2]", "[2.0]", "[\"2\"]", "[9223372036854775808]", "null"}) {
    EXPECT_THAT(error("\"F32\"", shape, "[0,8]"), HasSubstr("expected a shape")) << shape;
  }
  const std::string ones = absl::StrJoin(std::vector<int>(64, 1), ",");
  EXPECT_THAT(error("\"F32\"", absl::StrCat("[2,", ones, "]").c_str(), "[0,8]"),
              HasSubstr("expected a shape of at most 64 dimensions"));
  for (const char* offsets : {"8", "[8]", "[0,4,8]", "[0,-8]", "[0,8.0]", "[0,1e999]"}) {
    error("\"F32\"", "[2]", offsets);
  }
  EXPECT_THAT(error("\"F32\"", "[3]", "[0,8]"),
              HasSubstr("data_offsets [0, 8] do not fit F32 of shape [3]"));
  EXPECT_THAT(error("\"F32\"", "[2]", "[8,0]"), HasSubstr("do not fit"));
  EXPECT_THAT(error("\"F4\"", "[3]", "[0,1]"), HasSubstr("do not fit"));
  // Products that would wrap around to 2.
  EXPECT_THAT(error("\"F32\"", "[9223372036854775807,2,4294967298]", "[0,8]"),
              HasSubstr("do not fit"));
}

TEST_F(SafetensorsTest, HeaderLongerThanTheFormatAllows) {
  std::string bytes = WithHeader("{}", "");
  const uint64_t length = 100'000'001;
  std::memcpy(bytes.data(), &length, sizeof(length));
  EXPECT_THAT(Error(bytes, kInvalid), HasSubstr("not a safetensors file"));
  EXPECT_THAT(
      Error("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98\n", kInvalid),
      HasSubstr(" is a Git LFS pointer and not the file itself; fetch that with git lfs pull"));
}

// What is accepted must be whole: the entries cover the data one after another.
void ExpectContiguous(const SafetensorsFile& file, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const TensorEntry& entry : file.entries()) {
    ASSERT_EQ(entry.begin, end);
    end = entry.end;
  }
  ASSERT_LE(end, data_bytes);
  std::vector<float> out(data_bytes);
  for (const TensorEntry& entry : file.entries()) {
    file.Read(entry.name, entry.shape, out.data()).IgnoreError();
  }
}

TEST_F(SafetensorsTest, MutatedHeadersNeverCrash) {
  const std::string whole = absl::HexStringToBytes(kOfficial);
  const size_t header_end = whole.size() - 30;
  const auto check = [&](const std::string& bytes) {
    WriteBytes(path_, bytes);
    const auto file = SafetensorsFile::Open(path_);
    if (file.ok()) {
      ExpectContiguous(**file, bytes.size());
    } else {
      ASSERT_THAT(file.status().message(), HasSubstr(path_));
    }
  };
  for (size_t at = 0; at < header_end; ++at) {
    for (int delta = 1; delta < 256; delta += 23) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] + delta);
      check(bytes);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (int change = 0; change < 4; ++change) {
      bytes[random() % header_end] = "0123456789[]{},:\"-e.\x7f"[random() % 21];
    }
    check(bytes);
  }
}

// Writes more than there is room for over a smaller file in `folder`.
void ExpectOldFileSurvives(const std::string& folder, bool limit) {
  const std::string path = folder + "/model.safetensors";
  const std::vector<float> old_values = {1, 2, 3};
  ASSERT_TRUE(WriteSafetensors(path, {{"a", {3}, old_values.data()}}, {}).ok());
  const std::string before = ReadBytes(path);
  const std::vector<float> big(100'000);
  absl::Status status;
  {
    std::optional<FileSizeLimit> limited;
    if (limit) limited.emplace(64 << 10);
    status = WriteSafetensors(path, {{"a", {100'000}, big.data()}}, {});
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(), HasSubstr(path));
  EXPECT_EQ(ReadBytes(path), before);
  const auto entries = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(SafetensorsTest, FileSizeLimitLeavesTheOldFile) {
  ExpectOldFileSurvives(folder_.path(), /*limit=*/true);
}

TEST_F(SafetensorsTest, FullDiskLeavesTheOldFile) {
  const TinyDisk disk(folder_.path(), "64k");
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount a tmpfs here (needs root)";
  ExpectOldFileSurvives(folder_.path(), /*limit=*/false);
}

TEST_F(SafetensorsTest, AFileThatIsWrittenOverIsAnError) {
  ASSERT_TRUE(WriteSafetensors(path_, tensors_, {}).ok());
  for (const FileOpen open : {FileOpen::kAlways, FileOpen::kWhileReading}) {
    const auto file = SafetensorsFile::Open(path_, open);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto read = [&] {
      float value = 0;
      return (*file)->Read("b", {}, &value);
    };
    EXPECT_TRUE(read().ok());
    std::filesystem::last_write_time(
        path_, std::filesystem::last_write_time(path_) + std::chrono::milliseconds(1));
    const absl::Status status = read();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr("written to"));
  }
}

TEST_F(SafetensorsTest, CannotWriteOrRead) {
  const absl::Status status = WriteSafetensors(folder_ / "no/folder", tensors_, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(status.message(), HasSubstr("no/folder"));
  EXPECT_EQ(SafetensorsFile::Open(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsFile::Open(folder_.path()).status().code(), kInvalid);
}

}  // namespace
}  // namespace sluice
