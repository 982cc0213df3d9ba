#ifndef SLUICE_MODELS_TOKENS_BPE_SCRATCH_H_
#define SLUICE_MODELS_TOKENS_BPE_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/tokens/word_cache.h"

namespace sluice {

// What one thread needs to encode, kept from word to word.
struct BpeScratch {
  // A token of the word, in a doubly linked list.
  struct Symbol {
    int32_t id;  // -1: merged into the one before it
    int32_t previous;
    int32_t next;  // -1: the last
  };
  // Two neighbours that can be merged, as they were when this was found.
  struct Candidate {
    uint32_t rank;
    int32_t position;  // of the left one
    int32_t left;      // ids
    int32_t right;
    int32_t result;
  };

  // Appends a symbol.
  void Add(int32_t id) {
    const auto position = static_cast<int32_t>(symbols.size());
    if (position > 0) symbols.back().next = position;
    symbols.push_back({id, position - 1, -1});
  }

  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;  // the first to be merged is on top
  WordCache cache;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_BPE_SCRATCH_H_
