// Small tokenizers of nine kinds, and what Hugging Face's `tokenizers` says of some texts: ids with
// and without special tokens, and the text of the ids. tests/peers/hf_tokenizers.py wrote them; the
// library's version is in fixtures/expected.json.
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/spec/json.h"
#include "models/tokens/decode_stream.h"
#include "models/tokens/encoder.h"
#include "models/tokens/text/unicode.h"
#include "models/tokens/tokenizer.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::HasSubstr;

std::string ReadFixture(const std::string& name) {
  const auto path = SourceFolder() / "tests/models/tokens/fixtures" / (name + ".json");
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class FixturesTest : public ::testing::Test {
 protected:
  const Tokenizer& Named(const std::string& name) {
    std::unique_ptr<const Tokenizer>& tokenizer = tokenizers_[name];
    if (tokenizer == nullptr) {
      auto loaded = Tokenizer::Load(ReadFixture(name), name);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      tokenizer = *std::move(loaded);
    }
    return *tokenizer;
  }

  // Calls `check` with the tokenizer and the case; each failure names both.
  template <typename Check>
  void ForEachCase(const Check& check) {
    const absl::StatusOr<nlohmann::json> expected = ParseJson(ReadFixture("expected"));
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const nlohmann::json& one : (*expected)["cases"]) {
      SCOPED_TRACE(one["tokenizer"].get<std::string>() + ": " + one["text"].dump());
      check(Named(one["tokenizer"]), one);
    }
    EXPECT_GE((*expected)["cases"].size(), 100u);
  }

 private:
  std::map<std::string, std::unique_ptr<const Tokenizer>> tokenizers_;
};

TEST_F(FixturesTest, IdsAreThoseOfHuggingFace) {
  ForEachCase([](const Tokenizer& tokenizer, const nlohmann::json& one) {
    const std::string text = one["text"];
    const auto ids = Encode(tokenizer, text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, one["ids"].get<Ids>());
    EXPECT_EQ(*Encode(tokenizer, text, SpecialTokens::kLeaveOut),
              one["without_special"].get<Ids>());
  });
}

TEST_F(FixturesTest, TextIsThatOfHuggingFace) {
  ForEachCase([](const Tokenizer& tokenizer, const nlohmann::json& one) {
    const Ids ids = one["ids"];
    const auto text = Decode(tokenizer, ids);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, one["decoded"].get<std::string>());
    EXPECT_EQ(*Decode(tokenizer, ids, SpecialTokens::kLeaveOut),
              one["decoded_without_special"].get<std::string>());
  });
}

TEST_F(FixturesTest, AnEncoderThatRemembersWordsSaysTheSame) {
  std::map<const Tokenizer*, std::unique_ptr<Encoder>> encoders;
  for (int round = 0; round < 2; ++round) {
    ForEachCase([&](const Tokenizer& tokenizer, const nlohmann::json& one) {
      std::unique_ptr<Encoder>& encoder = encoders[&tokenizer];
      if (encoder == nullptr) encoder = std::make_unique<Encoder>(tokenizer);
      Ids ids;
      ASSERT_TRUE(encoder->Append(one["text"].get<std::string>(), SpecialTokens::kAdd, &ids).ok());
      EXPECT_EQ(ids, one["ids"].get<Ids>());
    });
  }
}

TEST_F(FixturesTest, AStreamGivesWholeCharactersAndInTheEndAllOfTheText) {
  ForEachCase([](const Tokenizer& tokenizer, const nlohmann::json& one) {
    DecodeStream stream(tokenizer);
    std::string text;
    for (const int32_t id : one["ids"].get<Ids>()) {
      const auto part = stream.Take(id);
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_EQ(FindInvalidUtf8(*part), absl::string_view::npos);
      text += *part;
    }
    EXPECT_EQ(text + stream.Finish(), one["decoded"].get<std::string>());
  });
}

TEST_F(FixturesTest, BytesOfACharacterWaitForItsLastOne) {
  const Tokenizer& tokenizer = Named("gpt2");
  const std::string face = "\xF0\x9F\x98\x80";
  const Ids ids = *Encode(tokenizer, face);
  ASSERT_GT(ids.size(), 1u);
  DecodeStream stream(tokenizer);
  for (size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(*stream.Take(ids[i]), "");
  EXPECT_EQ(*stream.Take(ids.back()), face);
  EXPECT_EQ(stream.Finish(), "");

  DecodeStream cut(tokenizer);
  EXPECT_EQ(*cut.Take(ids[0]), "");
  EXPECT_EQ(cut.Finish(), "\xEF\xBF\xBD");
}

TEST_F(FixturesTest, WordsAndIdsBelongTogether) {
  const Tokenizer& tokenizer = Named("llama2");
  EXPECT_EQ(tokenizer.IdOf("<s>"), 1);
  EXPECT_EQ(tokenizer.WordOf(1), "<s>");
  EXPECT_TRUE(tokenizer.IsSpecial(1));
  const int32_t pad = *tokenizer.IdOf("<|pad|>");
  EXPECT_TRUE(tokenizer.IsSpecial(pad));
  EXPECT_FALSE(tokenizer.IsSpecial(*tokenizer.IdOf("foo_bar")));
  EXPECT_FALSE(tokenizer.IsSpecial(*tokenizer.IdOf("<0x41>")));
  EXPECT_EQ(tokenizer.IdOf("no word"), std::nullopt);
  EXPECT_EQ(tokenizer.WordOf(tokenizer.vocabulary_size()), std::nullopt);
  EXPECT_TRUE(tokenizer.WordOf(tokenizer.vocabulary_size() - 1).has_value());
  EXPECT_EQ(tokenizer.WordOf(-1), std::nullopt);
}

TEST_F(FixturesTest, WhatIsNoTextIsRefusedWithItsPlace) {
  const auto ids = Encode(Named("gpt2"), "one\ntwo \xC3(");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("line 2, column 5: the byte 0xc3"));
}

TEST_F(FixturesTest, AnIdWithoutAWordIsRefused) {
  const Tokenizer& tokenizer = Named("gpt2");
  for (const int32_t id : {-1, tokenizer.vocabulary_size(), 2'000'000'000}) {
    const auto text = Decode(tokenizer, {id});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(std::to_string(id)));
  }
}

}  // namespace
}  // namespace sluice
