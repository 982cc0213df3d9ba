#ifndef SLUICE_MODELS_TOKENS_SPLIT_H_
#define SLUICE_MODELS_TOKENS_SPLIT_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "models/tokens/definition/definition.h"
#include "models/tokens/text/pattern.h"
#include "models/tokens/text/unicode.h"

namespace sluice {

// As Pattern::FindAll, where each character for which `is_match` is true is a match.
template <typename IsMatch>
void FindCharacters(absl::string_view text, const IsMatch& is_match, std::vector<Part>* parts) {
  parts->clear();
  size_t end = 0;  // of the last match
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    if (!is_match(NextCodePoint(text, &at))) continue;
    if (end != start) parts->push_back({end, start, false});
    parts->push_back({start, at, true});
    end = at;
  }
  if (end != text.size() || text.empty()) parts->push_back({end, text.size(), false});
}

// Turns all parts of a text into the words that it is split into, empty ones among them. With
// `invert` matches and what lies between them change places first.
void ApplyBehavior(SplitBehavior behavior, bool invert, std::vector<Part>* parts);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_SPLIT_H_
