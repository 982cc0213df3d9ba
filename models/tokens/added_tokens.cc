#include "models/tokens/added_tokens.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/spec/show_text.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

bool EndsWithWord(absl::string_view text) {
  if (text.empty()) return false;
  size_t at = LastCodePoint(text);
  return IsWordCharacter(NextCodePoint(text, &at));
}

bool StartsWithWord(absl::string_view text) {
  size_t at = 0;
  return !text.empty() && IsWordCharacter(NextCodePoint(text, &at));
}

// The offset from which on `text` is white space only.
size_t SpaceAtEnd(absl::string_view text) {
  while (!text.empty()) {
    const size_t last = LastCodePoint(text);
    size_t at = last;
    if (!IsWhitespace(NextCodePoint(text, &at))) break;
    text = text.substr(0, last);
  }
  return text.size();
}

// The length of the white space with which `text` begins.
size_t SpaceAtStart(absl::string_view text) {
  size_t length = 0;
  for (size_t at = 0; at < text.size(); length = at) {
    if (!IsWhitespace(NextCodePoint(text, &at))) break;
  }
  return length;
}

}  // namespace

absl::Status AddedTokenFinder::Add(absl::string_view text, const AddedToken& token) {
  const std::string shown = ShowText(token.content);
  if (text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the normalizer leaves nothing of the added token '", shown, "'"));
  }
  int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<int32_t>(token_of_.size());
      token_of_.push_back(-1);
      if (node == 0) {
        first_[byte] = child;
      } else {
        children_[int64_t{node} * 256 + byte] = child;
      }
    }
    node = child;
  }
  if (token_of_[node] >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the normalizer makes the added tokens '", shown, "' and '",
                     ShowText(tokens_[token_of_[node]].content), "' one text"));
  }
  token_of_[node] = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
  return absl::OkStatus();
}

int32_t AddedTokenFinder::Child(int32_t node, unsigned char byte) const {
  if (node == 0) return first_[byte];
  const auto found = children_.find(int64_t{node} * 256 + byte);
  return found == children_.end() ? 0 : found->second;
}

int AddedTokenFinder::LongestAt(absl::string_view text, size_t* length) const {
  int longest = -1;
  int32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    node = Child(node, static_cast<unsigned char>(text[i]));
    if (node == 0) break;
    if (token_of_[node] < 0) continue;
    longest = token_of_[node];
    *length = i + 1;
  }
  return longest;
}

void AddedTokenFinder::Find(absl::string_view text, std::vector<Section>* sections) const {
  sections->clear();
  size_t covered = 0;  // up to where the sections reach
  for (size_t at = 0; at < text.size();) {
    if (first_[static_cast<unsigned char>(text[at])] == 0) {
      ++at;
      continue;
    }
    size_t length = 0;
    const int index = LongestAt(text.substr(at), &length);
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = at;
    size_t end = at + length;
    at = end;
    if (token.single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) {
      continue;
    }
    if (token.left_strip) begin = std::max(SpaceAtEnd(text.substr(0, begin)), covered);
    if (token.right_strip) end += SpaceAtStart(text.substr(end));
    // White space, which the token before has taken already.
    if (begin >= end) continue;
    if (covered < begin) sections->push_back({covered, begin, -1});
    sections->push_back({begin, end, token.id});
    covered = end;
  }
  if (covered != text.size()) sections->push_back({covered, text.size(), -1});
}

}  // namespace sluice
