// Texts that are too large to be encoded at once: what their pieces have in common with the whole.
#include "models/data/corpora/text_tokens.h"

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/spec/json.h"
#include "models/tokens/byte_characters.h"
#include "models/tokens/encoder.h"
#include "models/tokens/text/unicode.h"
#include "models/tokens/tokenizer.h"
#include "tests/models/data/files.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<const Tokenizer> Load(const std::string& json) {
  absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = Tokenizer::Load(json, "test");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

// A token per byte, wherever a text is cut between two characters.
std::unique_ptr<const Tokenizer> Bytes256() {
  nlohmann::json model = {{"type", "BPE"}, {"merges", nlohmann::json::array()}};
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), &character);
    model["vocab"][character] = byte;
  }
  return Load(nlohmann::json{
      {"pre_tokenizer",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true},
        {"use_regex", true}}},
      {"model",
       model}}.dump());
}

std::unique_ptr<const Tokenizer> Fixture(const std::string& name) {
  return Load(ReadBytes((SourceFolder() / "tests/models/tokens/fixtures" / (name + ".json"))));
}

class TextTokensTest : public ::testing::Test {
 protected:
  absl::StatusOr<Ids> InPieces(const std::string& text, const Tokenizer& tokenizer,
                               int64_t largest) {
    WriteBytes(path_, text);
    const auto source = EncodeTextFiles({path_}, tokenizer, largest);
    if (!source.ok()) return source.status();
    Ids ids(static_cast<size_t>((*source)->size()));
    if (absl::Status status = (*source)->Read(0, absl::MakeSpan(ids)); !status.ok()) return status;
    return ids;
  }

  void ExpectTheWhole(const std::string& text, const Tokenizer& tokenizer, int64_t largest) {
    SCOPED_TRACE(absl::StrCat("'", text, "' in pieces of ", largest));
    const absl::StatusOr<Ids> whole = Encode(tokenizer, text, SpecialTokens::kLeaveOut);
    const absl::StatusOr<Ids> pieces = InPieces(text, tokenizer, largest);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    EXPECT_EQ(*pieces, *whole);
  }

  TempFolder folder_;
  std::string path_ = folder_ / "corpus.txt";
};

// So many bytes end in the middle of a character.
TEST_F(TextTokensTest, NoCharacterIsCut) {
  const auto bytes = Bytes256();
  ExpectTheWhole("漢字。\n漢字。\n漢字。\n漢字。", *bytes, 15);
  ExpectTheWhole("漢字漢字漢字漢字漢字漢字", *bytes, 10);
  ExpectTheWhole("漢字\n漢字\n漢字\n漢字", *bytes, 10);
  ExpectTheWhole("\n漢字漢字漢字漢字漢字漢字", *bytes, 10);
}

TEST_F(TextTokensTest, AnyTextIsThatOfItsPieces) {
  const auto bytes = Bytes256();
  const std::vector<std::string> characters = {"a", "7",  "é", "漢", "😀",    "。",
                                               "!", "\n", " ", "\r", "\r\n", "e\u0301"};
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = random() % 40; i > 0; --i) text += characters[random() % characters.size()];
    ExpectTheWhole(text, *bytes, 4 + static_cast<int64_t>(random() % 30));
  }
}

// The end of a line behind a letter or number ends a word of each of these, in any script; and so
// does that of a line without blanks around its end.
TEST_F(TextTokensTest, WordsAreThoseOfTheWholeTextAtTheEndsOfLines) {
  for (const char* name : {"gpt2", "qwen2", "llama3_gaps"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = Fixture(name);
    for (const int64_t largest : {48, 64, 100}) {
      for (const char* line :
           {"the low newer words\n\n  and, others!\n", "the low\r\n\r\n  newer!\r\n",
            "漢字漢字\n\n漢字、漢字。\n", "и новое слово\n\n  там!\n", "x²\n\n  the!\n",
            "漢字、漢字。\n", "the lower one.\n", "{\"the\": \"lower\"}\n"}) {
        std::string text;
        while (text.size() < 600) text += line;
        ExpectTheWhole(text, *tokenizer, largest);
      }
    }
  }
}

TEST_F(TextTokensTest, WhatIsNotUtf8IsRefusedWithItsPlace) {
  const auto bytes = Bytes256();
  for (const char* bad : {"\xFF", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "\xE6\xBC"}) {
    const auto refused = InPieces(absl::StrCat("漢字漢字漢", bad, "字"), *bytes, 10);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()),
                AllOf(HasSubstr(path_), HasSubstr("UTF-8")));
  }
}

}  // namespace
}  // namespace sluice
