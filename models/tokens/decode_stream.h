#ifndef SLUICE_MODELS_TOKENS_DECODE_STREAM_H_
#define SLUICE_MODELS_TOKENS_DECODE_STREAM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/tokens/decode.h"
#include "models/tokens/tokenizer.h"

namespace sluice {

// The text of `ids`, valid UTF-8: bytes that are not become U+FFFD. InvalidArgument names an id that
// has no word.
absl::StatusOr<std::string> Decode(const Tokenizer& tokenizer, absl::Span<const int32_t> ids,
                                   SpecialTokens special = SpecialTokens::kAdd);

// Text of tokens as they come. All that it gives, one after the other, is what Decode gives for all
// the tokens.
class DecodeStream {
 public:
  // `tokenizer` lives longer.
  explicit DecodeStream(const Tokenizer& tokenizer, SpecialTokens special = SpecialTokens::kAdd);

  // What is certain of the text once `id` is known: nothing in the middle of a character.
  // InvalidArgument where the id has no word; the stream goes on as if it had not come.
  absl::StatusOr<std::string> Take(int32_t id);
  // The rest; U+FFFD for what is left of a character. Once, last.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  const SpecialTokens special_;
  DecoderChain chain_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DECODE_STREAM_H_
