#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/open_dataset.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSeq = 5;
constexpr int32_t kVocabulary = 50'000;

template <typename T>
std::string AsBytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Tokens that tell where they stand.
template <typename T>
std::vector<T> Counting(size_t count, T first = 0) {
  std::vector<T> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = static_cast<T>(first + i);
  return tokens;
}

std::string LlmcHeader(int32_t magic, int32_t version, int32_t tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return AsBytes(header);
}

struct Megatron {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 8;
  std::vector<int32_t> sizes = {60, 0, 40};
  std::vector<int64_t> pointers = {0, 120, 120};
  std::vector<int64_t> documents = {0, 1, 2, 3};

  std::string Bytes() const {
    return absl::StrCat(magic, AsBytes(std::vector<uint64_t>{version}),
                        std::string(1, static_cast<char>(code)),
                        AsBytes(std::vector<uint64_t>{sizes.size(), documents.size()}),
                        AsBytes(sizes), AsBytes(pointers), AsBytes(documents));
  }
};

class TokenFilesTest : public ::testing::Test {
 protected:
  DataRequest Request() const {
    return {.path = path_, .seq = kSeq, .vocabulary = vocabulary_, .validation = validation_};
  }
  std::unique_ptr<Dataset> Open() {
    absl::StatusOr<std::unique_ptr<Dataset>> data = OpenDataset(Request());
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? *std::move(data) : nullptr;
  }
  std::string Error() { return std::string(OpenDataset(Request()).status().message()); }

  // Every sample of both splits is a row of the tokens 0 to `size` - 1; their targets are all that
  // there are but those that the offset of an epoch leaves out.
  void ExpectCounting(int64_t size) {
    const std::unique_ptr<Dataset> data = Open();
    ASSERT_NE(data, nullptr);
    for (const Split split : {Split::kTrain, Split::kValidation}) {
      std::set<int32_t> seen;
      for (int64_t i = 0; i < data->samples(split); ++i) {
        std::vector<int32_t> input(kSeq), targets(kSeq);
        data->Fill(split, i, 1, DType::kInt32, {.input = input.data(), .targets = targets.data()});
        for (size_t t = 0; t < kSeq; ++t) {
          ASSERT_EQ(input[t], input[0] + static_cast<int32_t>(t));
          ASSERT_EQ(targets[t], input[t] + 1);
          ASSERT_TRUE(seen.insert(targets[t]).second);
        }
        const bool held_out = split == Split::kValidation;
        ASSERT_EQ(input[0] >= size - size / 10, held_out);
        ASSERT_LT(targets[kSeq - 1], size);
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(data->samples(split) * kSeq));
    }
    EXPECT_EQ(data->status(), absl::OkStatus());
    EXPECT_EQ(data->classes(), vocabulary_);
    EXPECT_EQ(data->samples(Split::kTrain), (size - size / 10 - 1) / kSeq - 1);
  }

  TempFolder folder_;
  std::string path_ = folder_ / "train.bin";
  int32_t vocabulary_ = kVocabulary;
  Validation validation_;
};

// As images begin, or what gzip has packed.
TEST_F(TokenFilesTest, TokensMayBeginWithAnyBytes) {
  vocabulary_ = 65'536;
  for (const std::vector<uint16_t>& begin :
       {std::vector<uint16_t>{0, 0x0308}, {0, 0x0108}, {0, 8}, {0x8b1f, 8}}) {
    std::vector<uint16_t> tokens = Counting<uint16_t>(1000);
    std::copy(begin.begin(), begin.end(), tokens.begin());
    WriteBytes(path_, AsBytes(tokens));
    const std::unique_ptr<Dataset> data = Open();
    ASSERT_NE(data, nullptr);
    EXPECT_THAT(data->description(), HasSubstr("tokens: 1,000 tokens"));
  }
}

TEST_F(TokenFilesTest, WithoutAHeaderTheVocabularySaysHowWide) {
  WriteBytes(path_, AsBytes(Counting<uint16_t>(1000)));
  ExpectCounting(1000);
  vocabulary_ = 65'536;
  ExpectCounting(1000);
  vocabulary_ = 65'537;
  WriteBytes(path_, AsBytes(Counting<uint32_t>(1000)));
  ExpectCounting(1000);
}

TEST_F(TokenFilesTest, ReadsTheHeaderOfLlmc) {
  WriteBytes(path_, LlmcHeader(20240520, 1, 300) + AsBytes(Counting<uint16_t>(300)));
  ExpectCounting(300);
  vocabulary_ = 128'256;
  ExpectCounting(300);
  WriteBytes(path_, LlmcHeader(20240801, 7, 300) + AsBytes(Counting<uint32_t>(300)));
  ExpectCounting(300);
}

TEST_F(TokenFilesTest, ReadsMegatronsIndex) {
  WriteBytes(folder_ / "train.idx", Megatron().Bytes());
  WriteBytes(path_, AsBytes(Counting<uint16_t>(100)));
  ExpectCounting(100);
  WriteBytes(folder_ / "train.idx", Megatron{.code = 5, .pointers = {0, 480, 480}}.Bytes());
  WriteBytes(path_, AsBytes(Counting<int64_t>(100)));
  ExpectCounting(100);
}

TEST_F(TokenFilesTest, PacksMegatronsDocuments) {
  WriteBytes(folder_ / "train.idx", Megatron{.sizes = {3, 0, 2}, .pointers = {0, 6, 6}}.Bytes());
  WriteBytes(path_, AsBytes(Counting<uint16_t>(5, 10)));
  validation_.share = 0;
  DataRequest request = Request();
  request.pack = true;
  const auto data = OpenDataset(request);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ((*data)->samples(Split::kTrain), 1);
  std::vector<int32_t> input(kSeq), targets(kSeq), starts(kSeq);
  (*data)->Fill(Split::kTrain, 0, 1, DType::kInt32,
                {.input = input.data(), .targets = targets.data(), .starts = starts.data()});
  EXPECT_THAT(input, ::testing::ElementsAre(10, 11, 12, 13, 14));
  EXPECT_THAT(targets, ::testing::ElementsAre(11, 12, -1, 14, -1));
  EXPECT_THAT(starts, ::testing::ElementsAre(0, 0, 0, 3, 3));
  std::filesystem::remove(folder_ / "train.idx");
  EXPECT_THAT(std::string(OpenDataset(request).status().message()),
              AllOf(HasSubstr(path_), HasSubstr("--pack cannot keep them whole")));
}

TEST_F(TokenFilesTest, AFolderIsItsFilesInOrder) {
  WriteBytes(folder_ / "b.bin", AsBytes(Counting<uint16_t>(30, 10)));
  WriteBytes(folder_ / "a.bin", AsBytes(Counting<uint16_t>(10)));
  WriteBytes(folder_ / "c.bin", LlmcHeader(20240520, 1, 60) + AsBytes(Counting<uint16_t>(60, 40)));
  WriteBytes(folder_ / "meta.pkl", "x");
  path_ = folder_.path();
  ExpectCounting(100);
  EXPECT_THAT(Open()->notes(), ::testing::ElementsAre(HasSubstr("not used")));
  WriteBytes(folder_ / "fineweb_val_0.bin", AsBytes(Counting<uint16_t>(6)));
  EXPECT_EQ(Open()->samples(Split::kValidation), 1);
  EXPECT_EQ(Open()->samples(Split::kTrain), 99 / kSeq - 1);
  WriteBytes(folder_ / "d.txt", std::string(100, 'x'));
  EXPECT_THAT(Error(), AllOf(HasSubstr("d.txt has text"), HasSubstr("files of one kind")));
}

TEST_F(TokenFilesTest, OneWindowIsEnoughWithoutValidation) {
  WriteBytes(path_, AsBytes(Counting<uint16_t>(kSeq + 1)));
  EXPECT_THAT(Error(), AllOf(HasSubstr(path_), HasSubstr("--validation 0")));
  validation_.share = 0;
  const std::unique_ptr<Dataset> data = Open();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->samples(Split::kValidation), 0);
  for (int64_t i = 0; i < 10; ++i) {
    std::vector<int32_t> input(kSeq), targets(kSeq);
    data->Fill(Split::kTrain, i, 1, DType::kInt32,
               {.input = input.data(), .targets = targets.data()});
    EXPECT_EQ(input, Counting<int32_t>(kSeq));
    EXPECT_EQ(targets, Counting<int32_t>(kSeq, 1));
  }
}

// At sizes near the smallest, too. Where several windows fit, fewer than a window of tokens at the
// end are never trained on.
TEST_F(TokenFilesTest, WindowsStayInsideAtEverySize) {
  validation_.share = 0;
  for (int32_t size = kSeq + 1; size < 6 * kSeq; ++size) {
    WriteBytes(path_, AsBytes(Counting<uint16_t>(static_cast<size_t>(size))));
    const std::unique_ptr<Dataset> data = Open();
    ASSERT_NE(data, nullptr);
    std::set<int32_t> seen;
    for (int64_t i = 0; i < 200; ++i) {
      std::vector<int32_t> targets(kSeq);
      data->Fill(Split::kTrain, i, 1, DType::kInt32, {.targets = targets.data()});
      seen.insert(targets.begin(), targets.end());
    }
    EXPECT_EQ(data->status(), absl::OkStatus());
    EXPECT_LE(*seen.rbegin(), size - 1);
    EXPECT_GE(*seen.rbegin(), size <= 2 * kSeq ? size - 1 : size - 1 - kSeq);
    EXPECT_EQ(*seen.begin(), 1);
  }
}

TEST_F(TokenFilesTest, ValidationIsAShareOrAnotherFile) {
  WriteBytes(path_, AsBytes(Counting<uint16_t>(1000)));
  const std::string tenth = Open()->fingerprint();
  validation_.share = 0.5;
  EXPECT_EQ(Open()->samples(Split::kValidation), 499 / kSeq);
  EXPECT_NE(Open()->fingerprint(), tenth);
  validation_.path = folder_ / "other.bin";
  WriteBytes(validation_.path, AsBytes(Counting<uint16_t>(12, 7)));
  const auto data = Open();
  EXPECT_EQ(data->samples(Split::kValidation), 2);
  EXPECT_EQ(data->samples(Split::kTrain), 999 / kSeq - 1);
  std::vector<int32_t> input(kSeq);
  data->Fill(Split::kValidation, 1, 1, DType::kInt32, {.input = input.data()});
  EXPECT_EQ(input, Counting<int32_t>(kSeq, 12));
  validation_ = {.share = 0.6};
  EXPECT_THAT(Error(), HasSubstr("--validation 0.6; expected 0 to 0.5"));
}

TEST_F(TokenFilesTest, ATokenOutsideOfTheVocabularyIsNamedWhenItIsRead) {
  std::vector<uint16_t> tokens = Counting<uint16_t>(1000);
  tokens[123] = 50'000;
  WriteBytes(path_, AsBytes(tokens));
  const auto data = Open();
  for (int64_t i = 0; i < data->samples(Split::kTrain); ++i) {
    std::vector<int32_t> input(kSeq);
    data->Fill(Split::kTrain, i, 1, DType::kInt32, {.input = input.data()});
    for (const int32_t token : input) ASSERT_LT(token, kVocabulary);
  }
  EXPECT_EQ(data->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(data->status().message()),
              AllOf(HasSubstr(path_ + ": token 123, at byte 246, is 50000"),
                    HasSubstr("expected 0 to 49999")));
}

TEST_F(TokenFilesTest, SaysWhatIsWrongWithAFile) {
  WriteBytes(path_, "abc");
  EXPECT_THAT(Error(), HasSubstr("train.bin has 3 bytes, which is no whole number of tokens of 2"));
  WriteBytes(path_, "");
  EXPECT_THAT(Error(), HasSubstr("train.bin is empty; expected tokens"));
  WriteBytes(path_, LlmcHeader(20240520, 2, 1) + "ab");
  EXPECT_THAT(Error(), HasSubstr("the version in llm.c's header is 2; expected 1"));
  WriteBytes(path_, LlmcHeader(20240520, 1, 2) + "ab");
  EXPECT_THAT(Error(), HasSubstr("llm.c's header says 2 tokens; the 2 bytes after it hold 1"));
  WriteBytes(path_, LlmcHeader(20240520, 1, -1) + "ab");
  EXPECT_THAT(Error(), HasSubstr("says -1 tokens"));
  WriteBytes(path_, LlmcHeader(20240520, 1, 0).substr(0, 100));
  EXPECT_THAT(Error(), HasSubstr("has 100 bytes; expected at least the 1024 of llm.c's header"));
  vocabulary_ = 0;
  EXPECT_THAT(Error(), HasSubstr("need a model with a vocabulary"));
}

TEST_F(TokenFilesTest, SaysWhatIsWrongWithMegatronsIndex) {
  WriteBytes(path_, AsBytes(Counting<uint16_t>(100)));
  const auto expect = [this](const std::string& bytes, const char* message) {
    WriteBytes(folder_ / "train.idx", bytes);
    EXPECT_THAT(Error(), AllOf(HasSubstr("train.idx"), HasSubstr(message)));
  };
  expect(Megatron{.magic = std::string("TNTIDX\0\0\0", 9)}.Bytes() + "12345678",
         "begins with 'TNTIDX");
  expect(Megatron{.version = 2}.Bytes(), "the version is 2; expected 1");
  expect(Megatron{.code = 7}.Bytes(), "the code of the type is 7; expected 1 (uint8)");
  expect(Megatron{.sizes = {60, -1, 40}}.Bytes(), "sequence 1 has a size of -1");
  expect(Megatron{.pointers = {0, 120, 122}}.Bytes(),
         "sequence 2 begins at byte 122; expected 120");
  expect(Megatron{.documents = {0, 4}}.Bytes(), "document 1 begins at sequence 4; expected 0 to 3");
  expect(Megatron{.documents = {1, 3}}.Bytes(), "document 0 begins at sequence 1; expected 0");
  expect(Megatron{.sizes = {60, 0, 41}}.Bytes(), "says 101 tokens, 202 bytes");
  const std::string sound = Megatron().Bytes();
  for (size_t size = 0; size < sound.size(); ++size) {
    expect(sound.substr(0, size), " bytes");
  }
}

}  // namespace
}  // namespace sluice
