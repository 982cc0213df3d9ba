#ifndef SLUICE_MODELS_TOKENS_WORD_CACHE_H_
#define SLUICE_MODELS_TOKENS_WORD_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// Words and their tokens. What a text uses, it uses again: most words of a text are found here.
// Holds at most kMostBytes of words and kMostIds tokens, and starts anew when it is full.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 256;  // bytes; longer ones are not kept
  static constexpr size_t kMostBytes = size_t{16} << 20;
  static constexpr size_t kMostIds = size_t{4} << 20;

  // Nothing where the word is not known; else tokens, until the next Insert. No word is without
  // tokens here.
  absl::Span<const int32_t> Find(absl::string_view word) const;
  void Insert(absl::string_view word, absl::Span<const int32_t> ids);

 private:
  struct Place {
    uint32_t begin;  // in ids_
    uint32_t count;
  };

  absl::string_view Keep(absl::string_view word);

  absl::flat_hash_map<absl::string_view, Place> places_;
  std::vector<int32_t> ids_;
  std::vector<std::unique_ptr<char[]>> blocks_;  // of the words' bytes
  size_t used_ = 0;                              // bytes of the last block
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_WORD_CACHE_H_
