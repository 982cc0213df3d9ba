#ifndef SLUICE_MODELS_TOKENS_ENCODER_H_
#define SLUICE_MODELS_TOKENS_ENCODER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/tokens/added_tokens.h"
#include "models/tokens/bpe_scratch.h"
#include "models/tokens/normalize.h"
#include "models/tokens/pre_tokenize.h"
#include "models/tokens/tokenizer.h"

namespace sluice {

// The tokens of `text`, with the ids that `tokenizers` of Hugging Face gives. InvalidArgument where
// it is not UTF-8 (the place is named), has 512 MiB or more, or needs an unknown token that there is
// not; ResourceExhausted where a regular expression gives up, or the normalizer makes a text many
// times longer. For many texts an Encoder is faster.
absl::StatusOr<std::vector<int32_t>> Encode(const Tokenizer& tokenizer, absl::string_view text,
                                            SpecialTokens special = SpecialTokens::kAdd);

// A place in a text from which on it has the same tokens whatever stands before, and so has each
// beginning of it that is not cut before `end`: an added token that was looked for before the text
// was normalized, or the first character of a line where a word surely begins with it.
struct TokenPlace {
  size_t begin = 0, end = 0;  // in bytes of the text: of the added token, or the character
  size_t at = 0;              // in the tokens
};

// Encodes many texts one after another, and remembers the words that it has met. One thread.
class Encoder {
 public:
  // `tokenizer` lives longer.
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends the tokens of `text`; errors as of Encode, and then `*ids` has some of them. `places`,
  // where given, gets those that are known, from left to right.
  absl::Status Append(absl::string_view text, SpecialTokens special, std::vector<int32_t>* ids,
                      std::vector<TokenPlace>* places = nullptr);

 private:
  // Bytes `begin` to `end` of `whole`, without added tokens that are looked for before a text is
  // normalized.
  absl::Status AppendSection(absl::string_view whole, size_t begin, size_t end,
                             std::vector<int32_t>* ids, std::vector<TokenPlace>* places);
  // `text` is a part of `whole` where there are `places`.
  absl::Status AppendWords(absl::string_view whole, absl::string_view text, bool at_start,
                           std::vector<int32_t>* ids, std::vector<TokenPlace>* places);

  const Tokenizer& tokenizer_;
  std::vector<Section> sections_;
  std::vector<Section> normalized_sections_;
  NormalizedText normalized_;
  SplitText split_;
  BpeScratch scratch_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_ENCODER_H_
