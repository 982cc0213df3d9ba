#ifndef SLUICE_MODELS_TOKENS_ADDED_TOKENS_H_
#define SLUICE_MODELS_TOKENS_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "models/tokens/definition/definition.h"

namespace sluice {

// A part of a text: an added token, or what lies between two.
struct Section {
  size_t begin = 0;
  size_t end = 0;      // one past the last byte
  int32_t token = -1;  // the added token's id; -1: none

  bool operator==(const Section&) const = default;
};

// Finds added tokens in texts, as `tokenizers` of Hugging Face does: of all that begin leftmost the
// longest one; then the search goes on behind it, even where it was no single word and was dropped.
class AddedTokenFinder {
 public:
  // Looks for `text` instead of the token's content. InvalidArgument where the text is empty, or
  // another token's already.
  absl::Status Add(absl::string_view text, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Replaces `*sections`: all of `text`, from left to right. A token with `right_strip` may reach
  // into the next one, which then counts whole.
  void Find(absl::string_view text, std::vector<Section>* sections) const;

 private:
  // A trie over bytes. Node 0 is the root.
  int32_t Child(int32_t node, unsigned char byte) const;
  // The index of the longest token at the start of `text`, and its length; -1: there is none.
  int LongestAt(absl::string_view text, size_t* length) const;

  std::vector<AddedToken> tokens_;
  std::vector<int> token_of_ = {-1};                // [node]: an index, or -1
  std::array<int32_t, 256> first_ = {};             // [byte]: the root's children; 0: none
  absl::flat_hash_map<int64_t, int32_t> children_;  // of the other nodes, at node * 256 + byte
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_ADDED_TOKENS_H_
