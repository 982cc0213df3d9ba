// Byte pair encoding against its definition: merge the neighbours whose merge comes first, the
// leftmost of them, until none can be merged.
#include "models/tokens/bpe.h"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/tokens/byte_characters.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The naive twin: all pairs are looked at for each merge.
Ids MergeNaively(const BpeDefinition& definition, Ids ids) {
  while (true) {
    size_t best = definition.merges.size();
    size_t position = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        const Merge& merge = definition.merges[rank];
        if (merge.left == ids[i] && merge.right == ids[i + 1]) {
          best = rank;
          position = i;
        }
      }
    }
    if (best == definition.merges.size()) return ids;
    ids[position] = definition.merges[best].result;
    ids.erase(ids.begin() + static_cast<int64_t>(position) + 1);
  }
}

// What a word starts as, where each character is a word.
Ids Characters(const BpeDefinition& definition, const std::string& word) {
  const std::map<std::string, int32_t> ids(definition.words.begin(), definition.words.end());
  Ids result;
  for (size_t at = 0; at < word.size();) {
    const size_t start = at;
    NextCodePoint(word, &at);
    result.push_back(ids.at(word.substr(start, at - start)));
  }
  return result;
}

// Words of a few characters, and random merges of them, none of a pair twice.
BpeDefinition RandomDefinition(const std::vector<std::string>& characters, int merges,
                               std::mt19937& random) {
  BpeDefinition definition;
  std::map<std::string, int32_t> ids;
  for (const std::string& character : characters) {
    definition.words.emplace_back(character, ids.size());
    ids.emplace(character, ids.size());
  }
  std::map<std::pair<int32_t, int32_t>, bool> seen;
  for (int i = 0; i < merges; ++i) {
    const auto& [left, left_id] = definition.words[random() % definition.words.size()];
    const auto& [right, right_id] = definition.words[random() % definition.words.size()];
    const std::string both = left + right;
    if (both.size() > 24 || !seen.emplace(std::pair(left_id, right_id), true).second) continue;
    const auto [found, is_new] = ids.emplace(both, ids.size());
    const Merge merge = {left_id, right_id, found->second};
    if (is_new) definition.words.emplace_back(both, found->second);
    definition.merges.push_back(merge);
  }
  return definition;
}

std::string RandomWord(const std::vector<std::string>& characters, std::mt19937& random) {
  std::string word;
  // Mostly short; rows of one character give many candidates of one rank.
  for (size_t parts = random() % 30; parts > 0; --parts) {
    const std::string& character = characters[random() % characters.size()];
    for (size_t i = random() % 8 == 0 ? random() % 12 : 1; i > 0; --i) word += character;
  }
  return word;
}

Ids Encode(const Bpe& bpe, const std::string& word, BpeScratch* scratch) {
  Ids ids;
  const absl::Status status = bpe.Encode(word, scratch, &ids);
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

TEST(Bpe, EqualsItsDefinitionOnCharacters) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::string> characters = {"a", "b", "é", "▁", "😀", "z"};
    const BpeDefinition definition =
        RandomDefinition(characters, static_cast<int>(random() % 40), random);
    const Bpe bpe(definition, /*byte_level=*/false);
    BpeScratch scratch;
    for (int i = 0; i < 20; ++i) {
      const std::string word = RandomWord(characters, random);
      ASSERT_EQ(Encode(bpe, word, &scratch), MergeNaively(definition, Characters(definition, word)))
          << word;
    }
  }
}

TEST(Bpe, EqualsItsDefinitionOnBytes) {
  std::mt19937 random(2);
  const std::vector<std::string> bytes = {"a", "b", " ", "\n", "\x80", "\xFF"};
  std::vector<std::string> characters;
  for (const std::string& byte : bytes) {
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte[0])), &characters.emplace_back());
  }
  for (int round = 0; round < 300; ++round) {
    const BpeDefinition definition =
        RandomDefinition(characters, static_cast<int>(random() % 40), random);
    const Bpe bpe(definition, /*byte_level=*/true);
    BpeScratch scratch;
    for (int i = 0; i < 20; ++i) {
      const std::string word = RandomWord(bytes, random);
      std::string written;
      for (const char byte : word)
        AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), &written);
      ASSERT_EQ(Encode(bpe, word, &scratch),
                MergeNaively(definition, Characters(definition, written)));
    }
  }
}

// "unrelated" with these merges is one word in the test of Hugging Face's library.
BpeDefinition Unrelated() {
  BpeDefinition definition;
  std::map<std::string, int32_t> ids;
  const auto add = [&](const std::string& word) {
    definition.words.emplace_back(word, ids.size());
    ids.emplace(word, ids.size());
  };
  for (const char* word : {"u", "n", "r", "e", "l", "a", "t", "d", "<unk>", "<0x41>", "<0xC3>"}) {
    add(word);
  }
  for (const auto& [left, right] :
       std::vector<std::pair<std::string, std::string>>{{"r", "e"},
                                                        {"a", "t"},
                                                        {"e", "d"},
                                                        {"u", "n"},
                                                        {"at", "ed"},
                                                        {"re", "l"},
                                                        {"rel", "ated"},
                                                        {"un", "related"}}) {
    add(left + right);
    definition.merges.push_back({ids.at(left), ids.at(right), ids.at(left + right)});
  }
  return definition;
}

TEST(Bpe, MergesUpToTheWholeWord) {
  const Bpe bpe(Unrelated(), false);
  BpeScratch scratch;
  EXPECT_THAT(Encode(bpe, "unrelated", &scratch), ElementsAre(18));
  EXPECT_THAT(Encode(bpe, "unrelate", &scratch), ElementsAre(14, 16, 12, 3));  // un rel at e
  EXPECT_THAT(Encode(bpe, "", &scratch), ElementsAre());
}

TEST(Bpe, WordsOfTheVocabularyMayIgnoreMerges) {
  BpeDefinition definition = Unrelated();
  definition.merges.clear();
  BpeScratch with, without;
  EXPECT_THAT(Encode(Bpe(definition, false), "rel", &without), ElementsAre(2, 3, 4));
  definition.ignore_merges = true;
  EXPECT_THAT(Encode(Bpe(definition, false), "rel", &with), ElementsAre(16));
}

TEST(Bpe, UnknownCharactersBecomeWhatTheFileSays) {
  BpeDefinition definition = Unrelated();
  const auto encode = [&](const std::string& word) {
    BpeScratch scratch;
    return Encode(Bpe(definition, false), word, &scratch);
  };
  EXPECT_THAT(encode("r??e"), ElementsAre(11));  // nothing at all, so r and e are neighbours
  definition.unknown = "<unk>";
  EXPECT_THAT(encode("r??e"), ElementsAre(2, 8, 8, 3));
  definition.fuse_unknown = true;
  EXPECT_THAT(encode("r??e?"), ElementsAre(2, 8, 3, 8));
  definition.byte_fallback = true;
  EXPECT_THAT(encode("rAe"), ElementsAre(2, 9, 3));
  EXPECT_THAT(encode("r\u00C1"), ElementsAre(2, 8));  // <0x81> is no word
  // As in Hugging Face's library, an unknown token waits until a known character comes.
  EXPECT_THAT(encode("?Ae"), ElementsAre(9, 8, 3));
}

TEST(Bpe, AnUnknownTokenThatIsNoWordIsAnErrorWhereItIsNeeded) {
  BpeDefinition definition = Unrelated();
  definition.unknown = "[UNK]";
  const Bpe bpe(definition, false);
  BpeScratch scratch;
  EXPECT_THAT(Encode(bpe, "re", &scratch), ElementsAre(11));
  Ids ids;
  const absl::Status status = bpe.Encode("r?", &scratch, &ids);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[UNK]"));
}

TEST(Bpe, OfTwoMergesOfOnePairTheSecondCounts) {
  BpeDefinition definition;
  definition.words = {{"a", 0}, {"b", 1}, {"ab", 2}, {"ba", 3}};
  definition.merges = {{0, 1, 2}, {1, 0, 3}, {0, 1, 2}};
  const Bpe bpe(definition, false);
  BpeScratch scratch;
  EXPECT_THAT(Encode(bpe, "aba", &scratch), ElementsAre(0, 3));
}

TEST(Bpe, LongWordsTakeNoLongTime) {
  // Quadratic merging would take minutes.
  BpeDefinition definition;
  definition.words = {{"a", 0}, {"b", 1}, {"aa", 2}, {"aaaa", 3}, {"ab", 4}};
  definition.merges = {{0, 0, 2}, {2, 2, 3}, {0, 1, 4}};
  const Bpe bpe(definition, false);
  BpeScratch scratch;
  const Ids ids = Encode(bpe, std::string(1'000'000, 'a') + "b", &scratch);
  EXPECT_EQ(ids.size(), 250'001u);
}

TEST(WordCache, StartsAnewWhenItIsFull) {
  WordCache cache;
  EXPECT_TRUE(cache.Find("word").empty());
  const Ids ids = {1, 2, 3};
  for (int i = 0; i < 100'000; ++i) {
    const std::string word = std::to_string(i) + std::string(200, 'x');
    cache.Insert(word, ids);
    ASSERT_THAT(cache.Find(word), ElementsAre(1, 2, 3));
  }
  EXPECT_TRUE(cache.Find("0" + std::string(200, 'x')).empty());
  const std::string too_long(WordCache::kLongestWord + 1, 'y');
  cache.Insert(too_long, ids);
  EXPECT_TRUE(cache.Find(too_long).empty());
}

TEST(ByteCharacters, AreGpt2s) {
  EXPECT_TRUE(CharacterOfByte(' ') == U'Ġ');
  EXPECT_TRUE(CharacterOfByte('\n') == U'Ċ');
  EXPECT_TRUE(CharacterOfByte(0xAD) == U'Ń');
  EXPECT_TRUE(CharacterOfByte('a') == U'a');
  for (int byte = 0; byte < 256; ++byte) {
    std::string word, bytes;
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), &word);
    EXPECT_TRUE(BytesOfWord(word, &bytes));
    EXPECT_EQ(bytes, std::string(1, static_cast<char>(byte)));
  }
  std::string bytes = "kept";
  EXPECT_FALSE(BytesOfWord("a b", &bytes));
  EXPECT_FALSE(BytesOfWord("中", &bytes));
  EXPECT_EQ(bytes, "kept");
}

}  // namespace
}  // namespace sluice
