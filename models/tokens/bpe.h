#ifndef SLUICE_MODELS_TOKENS_BPE_H_
#define SLUICE_MODELS_TOKENS_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "models/tokens/bpe_scratch.h"
#include "models/tokens/definition/definition.h"

namespace sluice {

// Byte pair encoding (Sennrich, Haddow and Birch 2016, https://arxiv.org/abs/1508.07909): a word
// starts as its characters, or its bytes; as long as two neighbours can be merged, those whose merge
// comes first in the list are, the leftmost of them first. Any thread, with a scratch of its own.
class Bpe {
 public:
  // `byte_level`: words are bytes, written in the vocabulary as models/tokens/byte_characters.h
  // says; else they are UTF-8.
  Bpe(const BpeDefinition& definition, bool byte_level);

  // Appends the tokens of `word`. A character that is no word of the vocabulary becomes its bytes'
  // words where there is byte fallback, else the unknown token, else nothing. InvalidArgument where
  // the unknown token is no word of the vocabulary itself.
  absl::Status Encode(absl::string_view word, BpeScratch* scratch, std::vector<int32_t>* ids) const;

 private:
  struct MergeTo {
    uint32_t rank;
    int32_t result;
  };

  void AddWords(const BpeDefinition& definition);
  void AddNeighbours(const BpeDefinition& definition);

  // The word that is this character alone; -1: none.
  int32_t CharacterUnit(char32_t character) const;
  // The end of a part of `word` from `begin` on that no merge leaves.
  size_t EndOfPart(absl::string_view word, size_t begin) const;

  absl::Status EncodePart(absl::string_view part, BpeScratch* scratch,
                          std::vector<int32_t>* ids) const;
  // Fills scratch->symbols with what `part` starts as.
  absl::Status Start(absl::string_view part, BpeScratch* scratch) const;
  // Adds the words of the bytes of a character, or of a byte's character; false where one is missing.
  bool AddFallback(absl::string_view unit, BpeScratch* scratch) const;
  void MergeAll(BpeScratch* scratch) const;
  // Puts the symbol at `position` and the next one at the end of the heap's vector, where they merge.
  void PushMerge(int32_t position, BpeScratch* scratch) const;

  const bool byte_level_;
  const bool fuse_unknown_;
  const bool byte_fallback_;
  const bool ignore_merges_;
  std::string unknown_;
  int32_t unknown_id_ = -1;  // -1: there is no unknown token, or it is no word
  bool has_unknown_ = false;
  std::array<int32_t, 256> byte_units_ = {};         // [byte] its word; -1: none
  std::array<int32_t, 128> ascii_units_ = {};        // [character] likewise
  absl::flat_hash_map<char32_t, int32_t> units_;     // of the other characters
  std::array<int32_t, 256> fallback_ = {};           // [byte] the word "<0xE5>"; -1: none
  absl::flat_hash_map<std::string, int32_t> words_;  // all, where merges may be ignored
  absl::flat_hash_map<uint64_t, MergeTo> merges_;    // at left << 32 | right
  // Characters that stand side by side in a result of a merge: a Bloom filter (Bloom 1970) with one
  // hash function, so some pairs that do not are in it, too.
  std::vector<uint64_t> neighbours_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_BPE_H_
