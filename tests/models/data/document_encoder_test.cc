// Which tokens of a conversation count, beside encoding it anew up to each border.
#include "models/data/documents/document_encoder.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/documents/document_tokens.h"
#include "models/tokens/tokenizer.h"
#include "tests/models/data/files.h"
#include "tests/sanitizers.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using Ids = std::vector<int32_t>;

// What the header promises, without knowing where tokens can be cut.
Ids CountedByPrefixes(const Tokenizer& tokenizer, const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  const Ids whole = *Encode(tokenizer, text, SpecialTokens::kLeaveOut);
  Ids tokens = whole;
  size_t done = 0, end = 0;
  for (const ChatPiece& piece : pieces) {
    end += piece.text.size();
    const Ids before = *Encode(tokenizer, text.substr(0, end), SpecialTokens::kLeaveOut);
    const auto differ = std::mismatch(before.begin(), before.end(), whole.begin(), whole.end());
    const auto until = std::max(done, static_cast<size_t>(differ.first - before.begin()));
    for (; done < until; ++done) {
      if (!piece.counts) tokens[done] = WithoutCounting(tokens[done]);
    }
  }
  return tokens;
}

struct Case {
  const char* fixture;
  bool strips = true;  // whether added tokens take white space before them, as those of fixtures do
};
std::unique_ptr<const Tokenizer> Load(const Case& which) {
  const std::string path =
      (SourceFolder() / "tests/models/tokens/fixtures" / which.fixture).string() + ".json";
  std::string json = ReadBytes(path);
  if (!which.strips) absl::StrReplaceAll({{"\"lstrip\":true", "\"lstrip\":false"}}, &json);
  auto tokenizer = Tokenizer::Load(json, path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

class DocumentEncoderTest : public testing::TestWithParam<Case> {};

TEST_P(DocumentEncoderTest, CountsWhatPiecesSay) {
  const std::unique_ptr<const Tokenizer> tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::vector<ChatPiece> pieces;
  const TextFormat format = {
      .tokenizer = tokenizer.get(),
      .render_chat = [&pieces](const Conversation&, LossOn) { return pieces; }};
  DocumentEncoder encoder(format, LossOn::kAssistant);
  Document document;
  document.form = Document::Form::kMessages;
  const std::string words[] = {"<|start|>",    "<|pad|>",  "</s>", "<|endoftext|>",
                               "LORD",         "foo_bar",  "foo",  "_",
                               "  ",           " ",        "\n",   "<strip>",
                               "\u2167",       "the Lord", "a",    "\u00e9",
                               "\u65e5\u672c", "1",        "<|",   "'s",
                               "User: ",       "!\n",      "\n\n", "\r\n",
                               "\n\u0301",     "\u180e"};
  std::mt19937 random(7);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint32_t>(n));
  };
  int within = 0;  // borders that no token ends at
  for (int trial = 0; trial < (kSanitized ? 100 : 2000); ++trial) {
    pieces.clear();
    for (int i = below(8); i >= 0; --i) {
      ChatPiece& piece = pieces.emplace_back();
      piece.counts = below(2) == 0;
      for (int word = below(6); word >= 0; --word) piece.text += words[below(std::size(words))];
    }
    const auto tokens = encoder.Encode(document);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    ASSERT_EQ(*tokens, CountedByPrefixes(*tokenizer, pieces)) << "trial " << trial;
    if (pieces.size() < 2) continue;
    const Ids first = *Encode(*tokenizer, pieces[0].text, SpecialTokens::kLeaveOut);
    const bool whole = first.size() <= tokens->size() &&
                       std::equal(first.begin(), first.end(), tokens->begin(),
                                  [](int32_t a, int32_t b) { return a == IdOfToken(b); });
    within += whole ? 0 : 1;
  }
  EXPECT_GT(within, kSanitized ? 0 : 20);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DocumentEncoderTest,
                         testing::Values(Case{"gemma"}, Case{"gpt2"}, Case{"llama2"},
                                         Case{"llama2_first"}, Case{"llama3_gaps"},
                                         Case{"metaspace"}, Case{"qwen2"}, Case{"smollm"},
                                         Case{"unk_each"}, Case{"llama3_gaps", false},
                                         Case{"qwen2", false}, Case{"smollm", false}));

// From which on nothing before them is encoded again.
TEST(EncoderPlaces, AreAddedTokensAndBeginningsOfLines) {
  const auto places_of = [](const Case& which) {
    const std::string text = "User: a!\n b\nAssistant: c\r\n\u65e5\n'd\n\u0301<|start|>";
    const std::unique_ptr<const Tokenizer> tokenizer = Load(which);
    Encoder encoder(*tokenizer);
    Ids ids;
    std::vector<TokenPlace> places;
    EXPECT_TRUE(encoder.Append(text, SpecialTokens::kLeaveOut, &ids, &places).ok());
    std::vector<std::string> words;
    for (const TokenPlace& place : places) {
      words.push_back(text.substr(place.begin, place.end - place.begin));
      const Ids rest = *Encode(*tokenizer, text.substr(place.begin), SpecialTokens::kLeaveOut);
      EXPECT_EQ(Ids(ids.begin() + static_cast<std::ptrdiff_t>(place.at), ids.end()), rest);
    }
    return words;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(places_of({"gpt2"}), ElementsAre("A", "\u65e5", "'"));
  for (const char* fixture : {"llama3_gaps", "qwen2", "smollm"}) {
    EXPECT_THAT(places_of({fixture, false}), ElementsAre("A", "\u65e5", "'", "<|start|>"));
  }
  // A tokenizer that joins words, or may take the end of a line, has none in its text.
  EXPECT_THAT(places_of({"qwen2"}), ElementsAre("<|start|>"));
  EXPECT_THAT(places_of({"metaspace"}), ElementsAre("<|start|>"));
}

}  // namespace
}  // namespace sluice
