#ifndef SLUICE_MODELS_TOKENS_TEXT_PATTERN_TEXT_H_
#define SLUICE_MODELS_TOKENS_TEXT_PATTERN_TEXT_H_

#include <string>

namespace sluice {

// What a split or a replacement looks for.
struct PatternText {
  std::string text;       // not empty
  bool is_regex = false;  // in Oniguruma's syntax; else the text itself
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_TEXT_PATTERN_TEXT_H_
