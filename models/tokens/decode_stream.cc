#include "models/tokens/decode_stream.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<std::string> Decode(const Tokenizer& tokenizer, absl::Span<const int32_t> ids,
                                   SpecialTokens special) {
  DecodeStream stream(tokenizer, special);
  std::string text;
  for (const int32_t id : ids) {
    const absl::StatusOr<std::string> part = stream.Take(id);
    if (!part.ok()) return part.status();
    text.append(*part);
  }
  return text.append(stream.Finish());
}

DecodeStream::DecodeStream(const Tokenizer& tokenizer, SpecialTokens special)
    : tokenizer_(tokenizer),
      special_(special),
      chain_(tokenizer.definition_.decoders, tokenizer.definition_.has_decoder) {}

absl::StatusOr<std::string> DecodeStream::Take(int32_t id) {
  const std::optional<absl::string_view> word = tokenizer_.WordOf(id);
  if (!word.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", id, " has no word in the vocabulary; expected one of the ids below ",
                     tokenizer_.vocabulary_size(), " that have"));
  }
  if (special_ == SpecialTokens::kAdd || !tokenizer_.IsSpecial(id)) chain_.Take(*word);
  return chain_.TakeText();
}

std::string DecodeStream::Finish() {
  chain_.Finish();
  return chain_.TakeText();
}

}  // namespace sluice
