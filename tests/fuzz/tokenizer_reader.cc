#include "models/tokens/decode_stream.h"
#include "models/tokens/encoder.h"
#include "models/tokens/text/unicode.h"
#include "models/tokens/tokenizer.h"
#include "promises.h"
#include "readers.h"

namespace sluice {
namespace {

void RequireTokens(const Tokenizer& tokenizer, absl::string_view text) {
  const auto ids = Encode(tokenizer, text);
  if (!ids.ok()) {
    return Require(ids.status().code() == absl::StatusCode::kInvalidArgument ||
                       ids.status().code() == absl::StatusCode::kResourceExhausted,
                   "a text has tokens, or an unknown token is missing, or a limit is reached");
  }
  for (const int32_t id : *ids) {
    Require(id >= 0 && id < tokenizer.vocabulary_size(), "a token is one of the vocabulary");
  }
  const auto decoded = Decode(tokenizer, *ids);
  Require(decoded.ok(), "tokens have a text");
  Require(FindInvalidUtf8(*decoded) == absl::string_view::npos, "a text is UTF-8");
}

}  // namespace

void TryTokenizer(absl::string_view text) {
  const auto tokenizer = Tokenizer::Load(text, kFuzzedFile);
  if (!tokenizer.ok()) return RequireRefusal(tokenizer.status());
  for (const char* sample : {"", "a", " aab  b1\n", "\u00e9A\u0301 \U0001F600"}) {
    RequireTokens(**tokenizer, sample);
  }
}

}  // namespace sluice
