#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/open_dataset.h"
#include "models/data/sources.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kSeq = 7;

// Two bytes out of the stream tell where they stand in it, for the 60,000 first positions.
std::string Numbered(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += static_cast<char>(i % 2 == 0 ? (i / 2) % 251 : (i / 2) / 251 % 241);
  }
  return text;
}

struct Batch {
  std::vector<int32_t> input;
  std::vector<int32_t> targets;
  bool operator==(const Batch&) const = default;
};

Batch Get(const Dataset& data, Split split, int64_t index, int64_t size) {
  const size_t values = static_cast<size_t>(size * data.input_size());
  Batch batch = {std::vector<int32_t>(values, -1), std::vector<int32_t>(values, -1)};
  data.Fill(split, index, size, DType::kInt32,
            {.input = batch.input.data(), .targets = batch.targets.data()});
  return batch;
}

DataRequest AnyBytes(const std::string& path, int64_t seq, uint64_t seed = 1) {
  return {.path = path, .seq = seq, .seed = seed, .bytes = Bytes::kAny};
}

std::unique_ptr<Dataset> Open(const std::string& path, int64_t seq = kSeq, uint64_t seed = 1) {
  absl::StatusOr<std::unique_ptr<Dataset>> data = OpenDataset(AnyBytes(path, seq, seed));
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : nullptr;
}

// Where a window begins in `text`; the text must hold it once.
size_t Locate(const std::string& text, const Batch& one) {
  std::string window(one.input.begin(), one.input.end());
  window += static_cast<char>(one.targets.back());
  const size_t at = text.find(window);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(text.find(window, at + 1), std::string::npos);
  return at;
}

class TextTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteBytes(path_, text_); }

  TempFolder folder_;
  std::string path_ = folder_ / "text.txt";
  std::string text_ = Numbered(2003);
};

// Whoever edits the file while we train cannot end us with a SIGBUS.
TEST_F(TextTest, AFileThatShrinksIsAnError) {
  const std::unique_ptr<Dataset> data = Open(path_);
  ASSERT_NE(data, nullptr);
  const Batch before = Get(*data, Split::kTrain, 0, 4);
  EXPECT_EQ(data->status(), absl::OkStatus());
  std::filesystem::resize_file(path_, 5);
  EXPECT_NE(Get(*data, Split::kTrain, 0, 4), before);
  EXPECT_EQ(data->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(data->status().message()), HasSubstr(path_));
}

TEST_F(TextTest, DescribesItself) {
  const auto data = Open(path_);
  EXPECT_EQ(data->description(), "text: 2,003 bytes, vocabulary 256, last 10 % for validation");
  EXPECT_EQ(data->classes(), 256);
  EXPECT_EQ(data->input_size(), kSeq);
  EXPECT_EQ(data->input_dtype(), DType::kInt32);
  EXPECT_EQ(data->samples(Split::kTrain), (2003 - 200 - 1) / kSeq - 1);
  EXPECT_EQ(data->samples(Split::kValidation), (200 - 1) / kSeq);
}

TEST_F(TextTest, TargetsAreTheBytesThatFollow) {
  const auto data = Open(path_);
  for (const Split split : {Split::kTrain, Split::kValidation}) {
    for (int64_t i = 0; i < 3 * data->samples(split); ++i) {
      const Batch one = Get(*data, split, i, 1);
      for (size_t t = 0; t + 1 < kSeq; ++t) ASSERT_EQ(one.targets[t], one.input[t + 1]);
      Locate(text_, one);
    }
  }
}

TEST_F(TextTest, EachEpochSeesEachWindowOnceInItsOwnOrder) {
  const auto data = Open(path_);
  const int64_t n = data->samples(Split::kTrain);
  std::set<size_t> offsets;
  std::vector<std::vector<size_t>> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<size_t> order;
    for (int64_t i = 0; i < n; ++i) {
      order.push_back(Locate(text_, Get(*data, Split::kTrain, epoch * n + i, 1)));
    }
    orders.push_back(order);
    std::sort(order.begin(), order.end());
    offsets.insert(order.front());
    ASSERT_LT(order.front(), size_t{kSeq});
    for (size_t i = 1; i < order.size(); ++i) ASSERT_EQ(order[i] - order[i - 1], size_t{kSeq});
  }
  EXPECT_EQ(offsets.size(), size_t{kSeq});  // 20 draws of 7: all of them, with this seed
  for (size_t a = 0; a < orders.size(); ++a) {
    for (size_t b = 0; b < a; ++b) EXPECT_NE(orders[a], orders[b]);
  }
}

// Over every size near the smallest, so that every remainder occurs.
TEST_F(TextTest, TrainingAndValidationNeverOverlap) {
  for (size_t size = 80; size < 240; ++size) {
    const std::string text = text_.substr(0, size);
    WriteBytes(path_, text);
    const auto data = Open(path_);
    const size_t border = size - size / 10;
    for (int64_t i = 0; i < 8 * data->samples(Split::kTrain); ++i) {
      ASSERT_LE(Locate(text, Get(*data, Split::kTrain, i, 1)) + kSeq + 1, border);
    }
    for (int64_t i = 0; i < data->samples(Split::kValidation); ++i) {
      ASSERT_EQ(Locate(text, Get(*data, Split::kValidation, i, 1)),
                border + static_cast<size_t>(i * kSeq));
    }
  }
}

TEST_F(TextTest, MicroBatchesCutOneSequence) {
  const auto data = Open(path_);
  for (const int64_t size : {2, 3, 5}) {
    const Batch batch = Get(*data, Split::kTrain, 17, size);
    for (int64_t i = 0; i < size; ++i) {
      const Batch one = Get(*data, Split::kTrain, 17 * size + i, 1);
      EXPECT_TRUE(std::equal(one.input.begin(), one.input.end(), batch.input.begin() + i * kSeq));
      EXPECT_TRUE(
          std::equal(one.targets.begin(), one.targets.end(), batch.targets.begin() + i * kSeq));
    }
  }
}

TEST_F(TextTest, FillDependsOnItsArgumentsAndTheSeedAlone) {
  const auto first = Open(path_);
  const auto second = Open(path_);
  const auto other_seed = Open(path_, kSeq, 2);
  Get(*first, Split::kTrain, 999, 4);  // what was asked for before leaves no trace
  const Batch batch = Get(*first, Split::kTrain, 3, 64);
  EXPECT_EQ(batch, Get(*second, Split::kTrain, 3, 64));
  EXPECT_NE(batch, Get(*other_seed, Split::kTrain, 3, 64));
  Batch half = batch;
  second->Fill(Split::kTrain, 3, 64, DType::kInt32, {.targets = half.targets.data()});
  second->Fill(Split::kTrain, 3, 64, DType::kInt32, {.input = half.input.data()});
  EXPECT_EQ(batch, half);
}

TEST_F(TextTest, ThreadsShareIt) {
  const auto data = Open(path_);
  const Batch expected = Get(*data, Split::kTrain, 0, 1000);
  std::vector<Batch> got(4);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (Batch& batch : got) {
    threads.emplace_back([&] { batch = Get(*data, Split::kTrain, 0, 1000); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Batch& batch : got) EXPECT_EQ(batch, expected);
}

TEST_F(TextTest, FingerprintsTellDataApart) {
  const std::string before = Open(path_)->fingerprint();
  EXPECT_EQ(before, Open(path_, 3, 99)->fingerprint());
  text_[1000] ^= 1;
  WriteBytes(path_, text_);
  EXPECT_NE(before, Open(path_)->fingerprint());
}

TEST_F(TextTest, ASampleIsOneDocumentWhoseTargetsAllCount) {
  const auto data = Open(path_);
  EXPECT_FALSE(data->has_documents());
  EXPECT_EQ(data->counted_targets(Split::kTrain, 5, 3), 3 * kSeq);
  std::vector<int32_t> starts(3 * kSeq, -1);
  data->Fill(Split::kTrain, 5, 3, DType::kInt32, {.starts = starts.data()});
  EXPECT_EQ(starts, std::vector<int32_t>(3 * kSeq, 0));
}

// Sparse, so it costs no disk: positions beyond 2^31 must not wrap around.
TEST_F(TextTest, ReadsBeyondTwoGigabytes) {
  constexpr int64_t kSize = (int64_t{5} << 30) + 3;
  std::error_code error;
  std::filesystem::resize_file(path_, kSize, error);
  if (error) GTEST_SKIP() << "no sparse file of 5 GiB here: " << error.message();
  {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(kSize - kSize / 10);
    file << "validate";
  }
  const auto data = Open(path_, 1 << 20);
  EXPECT_EQ(data->samples(Split::kTrain), (kSize - kSize / 10 - 1) / (1 << 20) - 1);
  const Batch batch = Get(*data, Split::kValidation, 0, 1);
  EXPECT_EQ(std::string(batch.input.begin(), batch.input.begin() + 8), "validate");
  Get(*data, Split::kTrain, 1'000'003, 2);  // stays inside: the sanitizers would tell
}

std::string Error(const std::string& path, int64_t seq, absl::StatusCode code) {
  const absl::Status status = OpenDataset(AnyBytes(path, seq)).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(status.message(), HasSubstr(path));
  return std::string(status.message());
}

TEST_F(TextTest, SaysWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  Error(folder_ / "missing.txt", 8, absl::StatusCode::kNotFound);
  EXPECT_THAT(Error("/dev/null", 8, kInvalid), HasSubstr("expected text"));
  WriteBytes(path_, "");
  EXPECT_THAT(Error(path_, 8, kInvalid), HasSubstr("is empty; expected text"));
  WriteBytes(path_, Numbered(8));
  EXPECT_THAT(Error(path_, 8, kInvalid), HasSubstr("has 8 bytes, less than one window of 9"));
  WriteBytes(path_, Numbered(89));
  EXPECT_THAT(Error(path_, 8, kInvalid), HasSubstr("at least 90 bytes are needed"));
  WriteBytes(path_, Numbered(90));
  EXPECT_TRUE(OpenDataset(AnyBytes(path_, 8)).ok());
  for (const int64_t seq : {int64_t{0}, int64_t{-5}, INT64_MAX}) {
    EXPECT_THAT(Error(path_, seq, kInvalid), HasSubstr(absl::StrCat("sequence length ", seq)));
  }
}

// The name of a folder says nothing about the files in it.
TEST_F(TextTest, AFolderMayBeNamedAsImagesAre) {
  const std::string folder = folder_ / "idx3-ubyte-of-mnist";
  std::filesystem::create_directory(folder);
  WriteBytes(folder + "/text.txt", text_);
  EXPECT_NE(Open(folder + "/text.txt"), nullptr);
}

// The smallest text of which such a share is a window would be longer than any number can say.
TEST_F(TextTest, AShareThatIsNextToNothingIsRefused) {
  for (const double share : {1e-15, 1e-18, 1e-30, 1e-300, 5e-324}) {
    DataRequest request = AnyBytes(path_, 8);
    request.validation.share = share;
    const absl::Status status = OpenDataset(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << share;
    EXPECT_THAT(status.message(), HasSubstr("held out for validation, must hold one window of 9"));
    EXPECT_THAT(status.message(), HasSubstr("--validation 0"));
  }
}

// 16-bit tokens, as nanoGPT's prepare.py writes them.
std::string Tokens(const std::vector<uint16_t>& tokens) {
  std::string bytes;
  for (const uint16_t token : tokens) {
    bytes += static_cast<char>(token & 0xffU);
    bytes += static_cast<char>(token >> 8U);
  }
  return bytes;
}

void ExpectNoText(const std::string& path, const std::string& bytes, const char* why) {
  WriteBytes(path, bytes);
  const absl::Status status = OpenDataset({.path = path, .seq = kSeq}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
  EXPECT_THAT(std::string(status.message()),
              AllOf(StartsWith(path + " is no text: "), HasSubstr(why), HasSubstr("--bytes")));
  const auto any = OpenDataset(AnyBytes(path, kSeq));
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(
      (*any)->description(),
      absl::StrCat("text: ", bytes.size(), " bytes, vocabulary 256, last 10 % for validation"));
}

// What others keep as one array would be trained on as text, keys and braces included.
TEST_F(TextTest, AJsonArrayIsRefused) {
  const std::string path = folder_ / "records.JSON";
  for (const char* begin : {"[{", " [\n  {", "\xef\xbb\xbf[ {"}) {
    WriteBytes(path, absl::StrCat(begin, "\"instruction\": \"Count.\", \"output\": \"1 2 3\"}]"));
    const absl::Status status = OpenDataset({.path = path, .seq = kSeq}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << begin;
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith(path + " is one JSON array of objects; expected one object on "),
                      HasSubstr("jq -c '.[]' " + path), HasSubstr("--bytes")));
  }
  // Another text that is JSON is text.
  WriteBytes(path,
             "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]");
  EXPECT_TRUE(OpenDataset({.path = path, .seq = 3}).ok());
}

TEST_F(TextTest, FilesThatHoldSomethingElseAreRefused) {
  std::vector<uint16_t> low;
  for (uint16_t i = 0; i < 200; ++i) {
    low.push_back(i % 50 == 49 ? 13 : static_cast<uint16_t>(0x4141 + i));
  }
  ExpectNoText(folder_ / "tokens", Tokens(low), "byte 99 is 0, as in tokens");
}

TEST_F(TextTest, OnlyAWholeJsonArrayOfObjectsIsRefused) {
  const std::string record = "{\"instruction\": \"Count.\", \"output\": \"1 2 3\"}";
  const std::string path = folder_ / "records.json";
  // Its end is far behind what is looked at of its beginning.
  WriteBytes(path, absl::StrCat("[", record, std::string(200'000, ' '), ",\n", record, "\n]\r\n"));
  EXPECT_THAT(std::string(OpenDataset({.path = path, .seq = kSeq}).status().message()),
              HasSubstr(absl::StrCat("jq -c '.[]' ", path, " > ", folder_ / "records.jsonl ")));
  EXPECT_TRUE(OpenDataset(AnyBytes(path, kSeq)).ok());
  for (const auto& text :
       std::vector<std::string>{"{\"a\": [" + record + "]\n}", "[[" + record + "]]", "[" + record,
                                "[" + record + "] and more"}) {
    WriteBytes(path, text + std::string(100, ' '));
    EXPECT_TRUE(OpenDataset({.path = path, .seq = kSeq}).ok()) << text;
  }
}

TEST_F(TextTest, AJsonArrayInAFolderIsRefusedUnlessItsLinesAreThere) {
  const std::string records = "[{\"text\": \"" + std::string(100, 'a') + "\"}]";
  const auto open = [&] { return OpenDataset({.path = folder_.path(), .seq = kSeq}).status(); };
  WriteBytes(path_, std::string(2003, 'a'));
  WriteBytes(folder_ / "test.json", records);  // nothing of that name is looked at
  EXPECT_EQ(open(), absl::OkStatus());
  WriteBytes(folder_ / "val.json", records);
  EXPECT_THAT(std::string(open().message()),
              StartsWith((folder_ / "val.json") + " is one JSON array"));
  WriteBytes(folder_ / "val.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_THAT(std::string(open().message()), HasSubstr("files of several kinds"));
}

// The share is a tenth to the byte, as it was before it could be given.
TEST_F(TextTest, ATenthIsATenth) {
  for (int64_t size = 0; size < 1'000'000; ++size) ASSERT_EQ(HeldOut(size, 0.1), size / 10) << size;
  for (int64_t size = int64_t{1} << 50; size < (int64_t{1} << 50) + 1000; ++size) {
    ASSERT_EQ(HeldOut(size, 0.1), size / 10) << size;
  }
}

TEST_F(TextTest, TextThatLooksLikeSomethingElseIsRead) {
  const std::string fill(100, 'x');
  for (const std::string begin : {"{ a brace", "{}\n", "[1, 2]\n", "{\n\"a\": 1}\n", "\xff\xfe\x01",
                                  "{\"a\": 1} and more\n", "\"text\"\n"}) {
    WriteBytes(path_, begin + fill);
    EXPECT_TRUE(OpenDataset({.path = path_, .seq = kSeq}).ok()) << begin;
  }
}

}  // namespace
}  // namespace sluice
