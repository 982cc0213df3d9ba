#ifndef SLUICE_MODELS_TOKENS_TOKENIZER_H_
#define SLUICE_MODELS_TOKENS_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/tokens/added_tokens.h"
#include "models/tokens/bpe.h"
#include "models/tokens/definition/definition.h"
#include "models/tokens/normalize.h"
#include "models/tokens/pre_tokenize.h"

namespace sluice {

// To encode: whether to add the tokens that the post-processor puts around a text, such as <s>. To
// decode: whether special tokens are part of the text, also those that nobody added.
enum class SpecialTokens { kAdd, kLeaveOut };

// A tokenizer.json, loaded. encoder.h turns text into its tokens, decode_stream.h tokens into text.
// Any thread.
class Tokenizer {
 public:
  // `json` is the text of the file. InvalidArgument begins with `name`, and says what is wrong or
  // not supported, and what is.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(absl::string_view json,
                                                               absl::string_view name);

  // One more than the largest id.
  int32_t vocabulary_size() const { return vocabulary_size_; }
  // The word of an id, as the vocabulary writes it, and an added token's that is looked for in the
  // normalized text as the normalizer writes it; nothing where the id has none.
  std::optional<absl::string_view> WordOf(int32_t id) const;
  // The id of a word of the vocabulary, or of an added token.
  std::optional<int32_t> IdOf(absl::string_view word) const;
  bool IsSpecial(int32_t id) const;

 private:
  friend class Encoder;
  friend class DecodeStream;

  Tokenizer(TokenizerDefinition definition, Normalizer normalizer, PreTokenizer pre_tokenizer);
  absl::Status AddTokens();
  // Whether the first character of a line, where it is no white space and the normalizer does not
  // change the text, begins a word or an added token, in each beginning of the text that has it.
  bool LinesBeginWords() const;

  TokenizerDefinition definition_;  // its model is empty once model_ is made
  const Normalizer normalizer_;
  const PreTokenizer pre_tokenizer_;
  const Bpe model_;
  AddedTokenFinder raw_;         // in the text as it is
  AddedTokenFinder normalized_;  // in the normalized text
  absl::flat_hash_map<int32_t, std::string> words_;
  absl::flat_hash_map<absl::string_view, int32_t> ids_;  // views of words_ and of definition_.added
  absl::flat_hash_set<int32_t> special_;
  int32_t vocabulary_size_ = 0;
  bool lines_begin_words_ = false;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_TOKENIZER_H_
