#ifndef SLUICE_MODELS_DATA_CORPORA_TEXT_TOKENS_H_
#define SLUICE_MODELS_DATA_CORPORA_TEXT_TOKENS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/corpora/token_source.h"
#include "models/tokens/tokenizer.h"

namespace sluice {

// The tokens of text files, one after another. A file of at most `largest` bytes is encoded as one
// text, with the special tokens that the tokenizer puts around it, as `sluice tokenize` does. A
// larger one has no special tokens, and is cut into pieces that begin with the end of a line behind
// a letter or number, where most tokenizers end a word anyway. Where `largest` bytes have none, it
// is cut behind the end of a line, and without one between two characters: the tokens beside that
// can be others than those of the whole text. `largest` is at least 4, the bytes of a character.
// InvalidArgument names the file.
inline constexpr int64_t kLargestText = int64_t{64} << 20;
absl::StatusOr<std::unique_ptr<TokenSource>> EncodeTextFiles(const std::vector<std::string>& paths,
                                                             const Tokenizer& tokenizer,
                                                             int64_t largest = kLargestText);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_CORPORA_TEXT_TOKENS_H_
