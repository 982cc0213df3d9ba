#ifndef SLUICE_MODELS_TOKENS_PRE_TOKENIZE_H_
#define SLUICE_MODELS_TOKENS_PRE_TOKENIZE_H_

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/tokens/definition/definition.h"
#include "models/tokens/text/pattern.h"

namespace sluice {

// A text cut into words, none of them empty.
struct SplitText {
  struct Word {
    absl::string_view text;
    bool at_start = false;  // of the whole text that is encoded
  };
  std::vector<Word> words;
  std::deque<std::string> storage;  // of words that a step has changed
};

// The pre-tokenizers of a tokenizer, one after another. Any thread.
class PreTokenizer {
 public:
  // InvalidArgument where a regular expression is not supported.
  static absl::StatusOr<PreTokenizer> Create(const std::vector<PreTokenizerStep>& steps);

  // Whether the model is to see the words' bytes instead of their characters.
  bool byte_level() const { return byte_level_; }
  // Whether a character that is first in its line begins a word, whatever stands around, where it
  // is no white space; and from there on a text has the same words whatever stands before. Known of
  // the expressions of GPT-2, Llama 3 and Qwen 2.
  bool lines_begin_words() const { return lines_begin_words_; }

  // Replaces `*result`, whose words live as long as `text` and `*result`. `at_start`: `text` begins
  // where the whole text does. ResourceExhausted where a regular expression gives up.
  absl::Status Run(absl::string_view text, bool at_start, SplitText* result) const;

 private:
  struct Step {
    PreTokenizerStep what;
    std::optional<Pattern> pattern;  // of a split, or GPT-2's
  };

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool lines_begin_words_ = false;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_PRE_TOKENIZE_H_
