#ifndef SLUICE_MODELS_TOKENS_TEXT_PATTERN_H_
#define SLUICE_MODELS_TOKENS_TEXT_PATTERN_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/tokens/text/pattern_text.h"

namespace sluice {

// A part of a text, and whether it is a match of a pattern or lies between two.
struct Part {
  size_t begin = 0;
  size_t end = 0;  // one past the last byte
  bool is_match = false;

  bool operator==(const Part&) const = default;
};

// A regular expression or a text to look for, compiled. Any thread.
class Pattern {
 public:
  // InvalidArgument shows a regular expression that is not one, or that TranslateOniguruma refuses.
  static absl::StatusOr<Pattern> Compile(const PatternText& text);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // All of `text` from left to right: each match, and what lies between them, as `tokenizers` of
  // Hugging Face finds them. An empty match counts, but not right after another match. An empty
  // text is one part. Replaces `*parts`. ResourceExhausted when the search needs more steps or
  // memory than PCRE2's limits.
  absl::Status FindAll(absl::string_view text, std::vector<Part>* parts) const;

 private:
  struct Compiled;
  explicit Pattern(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_TEXT_PATTERN_H_
