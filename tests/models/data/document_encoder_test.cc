// Which tokens of a conversation count, beside encoding it anew up to each border.
#include "models/data/documents/document_encoder.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

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

class DocumentEncoderTest : public testing::TestWithParam<const char*> {};

TEST_P(DocumentEncoderTest, CountsWhatPiecesSay) {
  const std::string path =
      (SourceFolder() / "tests/models/tokens/fixtures" / GetParam()).string() + ".json";
  const auto tokenizer = Tokenizer::Load(ReadBytes(path), path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<ChatPiece> pieces;
  const TextFormat format = {.tokenizer = tokenizer->get(),
                             .render_chat = [&pieces](const Conversation&, LossOn) { return pieces; }};
  DocumentEncoder encoder(format, LossOn::kAssistant);
  Document document;
  document.form = Document::Form::kMessages;
  const std::string words[] = {"<|start|>",    "<|pad|>",  "</s>", "<|endoftext|>",
                               "LORD",         "foo_bar",  "foo",  "_",
                               "  ",           " ",        "\n",   "<strip>",
                               "\u2167",       "the Lord", "a",    "\u00e9",
                               "\u65e5\u672c", "1",        "<|",   "'s"};
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
    ASSERT_EQ(*tokens, CountedByPrefixes(**tokenizer, pieces)) << "trial " << trial;
    if (pieces.size() < 2) continue;
    const Ids first = *Encode(**tokenizer, pieces[0].text, SpecialTokens::kLeaveOut);
    const bool whole = first.size() <= tokens->size() &&
                       std::equal(first.begin(), first.end(), tokens->begin(),
                                  [](int32_t a, int32_t b) { return a == IdOfToken(b); });
    within += whole ? 0 : 1;
  }
  EXPECT_GT(within, kSanitized ? 0 : 20);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DocumentEncoderTest,
                         testing::Values("gemma", "gpt2", "llama2", "llama2_first", "llama3_gaps",
                                         "metaspace", "qwen2", "smollm", "unk_each"));

}  // namespace
}  // namespace sluice
