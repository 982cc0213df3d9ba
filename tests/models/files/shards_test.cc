#include "models/files/shards.h"

#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/spec/json.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

// A tensor of any type, with the bytes that a file has of it and the values that they are.
struct Stored {
  std::string name;
  std::string dtype = "F32";
  std::vector<int64_t> shape = {};
  std::string bytes = {};
  std::vector<float> values = {};
};

template <typename T>
void AppendBytes(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Small whole numbers, which all three types have.
Stored Random(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
              std::mt19937& random) {
  Stored stored = {.name = name, .dtype = dtype, .shape = std::move(shape)};
  int64_t count = 1;
  for (const int64_t dim : stored.shape) count *= dim;
  for (int64_t i = 0; i < count; ++i) {
    const int whole = static_cast<int>(random() % 64) + 64;  // 1.xxxxxx times 2 to the 6th
    const auto value = static_cast<float>(whole);
    stored.values.push_back(value);
    const auto bits = std::bit_cast<uint32_t>(value);
    if (dtype == "F32") AppendBytes(value, &stored.bytes);
    if (dtype == "BF16") AppendBytes(static_cast<uint16_t>(bits >> 16U), &stored.bytes);
    if (dtype == "F16") {
      AppendBytes(static_cast<uint16_t>(((15 + 6) << 10U) | ((bits >> 13U) & 0x3ffU)),
                  &stored.bytes);
    }
  }
  return stored;
}

std::string FileOf(const std::vector<Stored>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const Stored& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  std::string bytes;
  AppendBytes(static_cast<uint64_t>(text.size()), &bytes);
  return bytes + text + data;
}

class ShardsTest : public ::testing::Test {
 protected:
  // A folder of two shards, with "a" and "b" in the first and "c" in the second.
  void SetUp() override {
    std::mt19937 random(1);
    a_ = Random("a", "F32", {2, 3}, random);
    b_ = Random("b", "BF16", {4}, random);
    c_ = Random("c", "F16", {5}, random);
    WriteBytes(first_, FileOf({a_, b_}));
    WriteBytes(second_, FileOf({c_}));
    WriteIndex({{"a", ShardName(1, 2)}, {"b", ShardName(1, 2)}, {"c", ShardName(2, 2)}});
  }

  void WriteIndex(const std::map<std::string, std::string>& map) const {
    WriteBytes(index_, *FormatShardIndex({map}, 0, 0));
  }
  // The error of opening the folder, which must be of `code` and name the index or a shard.
  std::string Error(absl::StatusCode code) const {
    const absl::Status status = OpenModelWeights(folder_.path()).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(folder_.path()));
    return std::string(status.message());
  }
  std::string IndexError(const std::string& text) const {
    WriteBytes(index_, text);
    std::string error = Error(kInvalid);
    EXPECT_THAT(error, HasSubstr(index_));
    return error;
  }

  TempFolder folder_;
  const std::string index_ = folder_ / kModelIndexFile;
  const std::string first_ = folder_ / ShardName(1, 2);
  const std::string second_ = folder_ / ShardName(2, 2);
  std::mt19937 random_{2};
  Stored a_, b_, c_;
};

TEST_F(ShardsTest, ReadsAFolderAnIndexAndAFile) {
  for (const std::string& path : {folder_.path(), folder_.path() + "/", index_}) {
    const auto file = OpenModelWeights(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
    for (const Stored& stored : {a_, b_, c_}) {
      std::vector<float> values(stored.values.size());
      ASSERT_EQ((*file)->Read(stored.name, stored.shape, values.data()), absl::OkStatus());
      EXPECT_EQ(values, stored.values) << stored.name;
    }
    EXPECT_EQ((*file)->Check("d", {1}).code(), kNotFound);
    EXPECT_THAT((*file)->Check("c", {6}).message(),
                AllOf(HasSubstr(second_), HasSubstr("has shape [5], expected [6]")));
  }
  const auto one = OpenModelWeights(second_);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->entries().size(), 1u);
}

TEST_F(ShardsTest, OneFileGoesBeforeAnIndex) {
  WriteBytes(folder_ / kModelFile, FileOf({c_}));
  const auto file = OpenModelWeights(folder_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->entries().size(), 1u);
}

// Tensors of any type, in any shards: what is read is what one file would give, in any slice.
TEST_F(ShardsTest, RandomModelsAreReadAsOneFile) {
  const char* const types[] = {"F32", "BF16", "F16"};
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    TempFolder folder;
    const int shards = 1 + static_cast<int>(random() % 5);
    std::vector<std::vector<Stored>> of_shard(static_cast<size_t>(shards));
    ShardIndex index;
    for (int tensor = 0; tensor < 12; ++tensor) {
      const size_t shard = random() % of_shard.size();
      const std::string name = absl::StrCat("t", tensor);
      const int64_t rows = random() % 4 == 0 ? 70'000 : random() % 5;
      of_shard[shard].push_back(Random(name, types[random() % 3], {rows, 2}, random));
      index.weight_map[name] = ShardName(static_cast<int>(shard) + 1, shards);
    }
    for (int shard = 0; shard < shards; ++shard) {
      WriteBytes(folder / ShardName(shard + 1, shards),
                 FileOf(of_shard[static_cast<size_t>(shard)]));
    }
    WriteBytes(folder / kModelIndexFile, *FormatShardIndex(index, 1, 1));
    const auto file = OpenModelWeights(folder.path());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->entries().size(), index.weight_map.size());
    for (const std::vector<Stored>& tensors : of_shard) {
      for (const Stored& stored : tensors) {
        const size_t first = random() % (stored.values.size() + 1);
        const size_t count = random() % (stored.values.size() - first + 1);
        std::vector<float> values(count);
        ASSERT_EQ((*file)->Read(stored.name, stored.shape, static_cast<int64_t>(first),
                                static_cast<int64_t>(count), values.data()),
                  absl::OkStatus());
        EXPECT_TRUE(std::equal(values.begin(), values.end(), stored.values.begin() + first));
      }
    }
  }
}

// A process may have some thousand files open; a model's shards take none of them.
TEST_F(ShardsTest, ShardsAreOpenOnlyWhileTheyAreRead) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  const auto file = OpenModelWeights(folder_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(open_files(), before);
}

// The hub's cache keeps a file under the name of its checksum, and links to it from the folder.
TEST_F(ShardsTest, LinksAreFollowed) {
  TempFolder blobs;
  fs::rename(second_, blobs / "0123abcd");
  fs::create_symlink(blobs / "0123abcd", second_);
  std::vector<float> values(5);
  const auto file = OpenModelWeights(folder_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->Read("c", {5}, values.data()), absl::OkStatus());
  EXPECT_EQ(values, c_.values);
  fs::remove(blobs / "0123abcd");
  EXPECT_THAT(Error(kNotFound), AllOf(HasSubstr("shard that is missing"), HasSubstr(second_)));
}

TEST_F(ShardsTest, AFileOutsideOfTheFolderIsRefused) {
  TempFolder other;
  WriteBytes(other / "c", FileOf({c_}));
  for (const std::string& name :
       {other / "c", "../" + fs::path(other.path()).filename().string() + "/c", std::string(".."),
        std::string("."), std::string(), std::string("sub/c"), std::string("c\0d", 3)}) {
    WriteIndex({{"a", ShardName(1, 2)}, {"c", name}});
    EXPECT_THAT(Error(kInvalid),
                AllOf(HasSubstr(index_), HasSubstr("\"c\""),
                      HasSubstr("expected the name of a file in the same folder")));
  }
}

TEST_F(ShardsTest, NamesTheShardThatIsMissingOrDamaged) {
  const std::string whole = ReadBytes(second_);
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteBytes(second_, whole.substr(0, size));
    const absl::Status status = OpenModelWeights(folder_.path()).status();
    EXPECT_EQ(status.code(), kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(second_));
  }
  fs::remove(second_);
  EXPECT_THAT(Error(kNotFound), AllOf(HasSubstr("missing"), HasSubstr(second_)));
  fs::create_directory(second_);
  EXPECT_THAT(Error(kInvalid), HasSubstr("a directory"));
}

TEST_F(ShardsTest, AShardMustHaveWhatTheIndexSays) {
  WriteBytes(second_, FileOf({Random("d", "F32", {1}, random_)}));
  EXPECT_THAT(Error(kNotFound),
              AllOf(HasSubstr("tensor 'c' is in " + ShardName(2, 2)), HasSubstr("no such tensor")));
  WriteBytes(second_, FileOf({c_}));
  WriteIndex({{"a", ShardName(1, 2)}, {"b", ShardName(2, 2)}, {"c", ShardName(2, 2)}});
  EXPECT_THAT(Error(kNotFound), HasSubstr("tensor 'b' is in " + ShardName(2, 2)));
}

TEST_F(ShardsTest, ATensorIsInOneShard) {
  WriteBytes(second_, FileOf({c_, b_}));
  EXPECT_THAT(Error(kInvalid), AllOf(HasSubstr("tensor 'b' is in two shards"), HasSubstr(first_),
                                     HasSubstr(second_)));
}

TEST_F(ShardsTest, TypesThatAreNoWeightsAreNamed) {
  Stored mask = {.name = "c", .dtype = "BOOL", .shape = {2}, .bytes = "\1\1"};
  WriteBytes(second_, FileOf({mask}));
  const auto file = OpenModelWeights(folder_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->Check("c", {2}).message(), HasSubstr("is BOOL, expected F32, F16 or BF16"));
}

TEST_F(ShardsTest, AnIndexThatIsNoneIsRefused) {
  for (const char* text :
       {"", "[1]", "{", "{}", R"({"weight_map": {}})", R"({"weight_map": ["a"]})",
        R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": "x"}, "weight_map": {"a": "y"}})"}) {
    IndexError(text);
  }
  EXPECT_THAT(IndexError("{\"weight_map\": " + std::string(100'000, '[')), HasSubstr("nested"));
  WriteBytes(index_, "");
  ASSERT_EQ(truncate(index_.c_str(), off_t{1} << 40), 0);  // takes no room on the disk
  EXPECT_THAT(Error(kInvalid), HasSubstr("1099511627776 bytes"));
}

TEST_F(ShardsTest, SaysWhatAFolderWithoutWeightsLacks) {
  fs::remove(index_);
  EXPECT_THAT(Error(kNotFound), AllOf(HasSubstr(kModelFile), HasSubstr(kModelIndexFile)));
  WriteBytes(folder_ / "pytorch_model.bin", "pickled");
  EXPECT_THAT(Error(kNotFound), HasSubstr("pytorch_model.bin is not read"));
}

// A mapped file would end the process with SIGBUS.
TEST_F(ShardsTest, AFileThatIsCutShortWhileItIsReadIsAnError) {
  const auto one = SafetensorsFile::Open(first_);
  const auto all = OpenModelWeights(folder_.path());
  ASSERT_TRUE(one.ok() && all.ok());
  ASSERT_EQ(truncate(first_.c_str(), 9), 0);
  std::vector<float> values(6);
  for (const SafetensorsFile* file : {one->get(), all->get()}) {
    const absl::Status status = file->Read("a", {2, 3}, values.data());
    EXPECT_EQ(status.code(), kDataLoss) << status;
    EXPECT_THAT(status.message(), HasSubstr(first_));
  }
  WriteBytes(first_, FileOf({b_, a_}));  // whole, but another one
  EXPECT_EQ((*all)->Read("a", {2, 3}, values.data()).code(), kDataLoss);
}

// The text that transformers 5 writes for these tensors: json.dumps(index, indent=2,
// sort_keys=True) + "\n".
TEST_F(ShardsTest, TheIndexIsWrittenAsTransformersDoes) {
  const ShardIndex index = {{{"lm_head.weight", "model-00002-of-00002.safetensors"},
                             {"model.norm.weight", "model-00001-of-00002.safetensors"}}};
  const auto text = FormatShardIndex(index, 48, 12);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, R"({
  "metadata": {
    "total_parameters": 12,
    "total_size": 48
  },
  "weight_map": {
    "lm_head.weight": "model-00002-of-00002.safetensors",
    "model.norm.weight": "model-00001-of-00002.safetensors"
  }
}
)");
  EXPECT_EQ(ParseShardIndex(*text)->weight_map, index.weight_map);
  EXPECT_EQ(FormatShardIndex({{{"\xff", "x"}}}, 0, 0).status().code(), kInvalid);
}

}  // namespace
}  // namespace sluice
