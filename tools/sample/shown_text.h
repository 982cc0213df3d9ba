#ifndef SLUICE_TOOLS_SAMPLE_SHOWN_TEXT_H_
#define SLUICE_TOOLS_SAMPLE_SHOWN_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "comm/printable.h"
#include "models/tokens/decode_stream.h"
#include "tools/sample/loaded_model.h"

namespace sluice {

// The text of a model's tokens as they come, safe for a terminal: whole characters only.
class ShownText {
 public:
  // `model` lives longer.
  explicit ShownText(const LoadedModel& model) {
    if (model.text) decoder_.emplace(*model.text->tokenizer, SpecialTokens::kLeaveOut);
  }
  // A token that has no word, in a vocabulary larger than the tokenizer's, is U+FFFD.
  std::string Take(int32_t token) {
    if (!decoder_) return printable_.Feed(static_cast<uint8_t>(token));
    const absl::StatusOr<std::string> text = decoder_->Take(token);
    return ToPrintable(text.ok() ? *text : "\xEF\xBF\xBD");
  }
  std::string Finish() { return decoder_ ? ToPrintable(decoder_->Finish()) : printable_.Finish(); }

 private:
  std::optional<DecodeStream> decoder_;
  PrintableText printable_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_SAMPLE_SHOWN_TEXT_H_
