#include "models/tokens/encoder.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "models/tokens/text/unicode.h"

namespace sluice {

absl::StatusOr<std::vector<int32_t>> Encode(const Tokenizer& tokenizer, absl::string_view text,
                                            SpecialTokens special) {
  std::vector<int32_t> ids;
  Encoder encoder(tokenizer);
  absl::Status status = encoder.Append(text, special, &ids);
  if (!status.ok()) return status;
  return ids;
}

absl::Status Encoder::Append(absl::string_view text, SpecialTokens special,
                             std::vector<int32_t>* ids, std::vector<TokenPlace>* added) {
  // Positions in a word, and ICU's in a text, are int32; normalization makes a text longer.
  constexpr size_t kMostBytes = size_t{std::numeric_limits<int32_t>::max()} / 4;
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the text has ", text.size(),
                                                   " bytes; expected at most ", kMostBytes,
                                                   ": give it in several parts"));
  }
  const size_t invalid = FindInvalidUtf8(text);
  if (invalid != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(LineAndColumn(text, invalid), ": the byte 0x",
                     absl::Hex(static_cast<unsigned char>(text[invalid]), absl::kZeroPad2),
                     " is not UTF-8, which a text has to be"));
  }
  const TokenizerDefinition& definition = tokenizer_.definition_;
  const bool around = special == SpecialTokens::kAdd;
  if (around) ids->insert(ids->end(), definition.before.begin(), definition.before.end());
  tokenizer_.raw_.Find(text, &sections_);
  for (const Section& section : sections_) {
    if (section.token >= 0) {
      if (added != nullptr) added->push_back({section.begin, section.end, ids->size()});
      ids->push_back(section.token);
      continue;
    }
    absl::Status status = AppendSection(text.substr(section.begin, section.end - section.begin),
                                        section.begin == 0, ids);
    if (!status.ok()) return status;
  }
  if (around) ids->insert(ids->end(), definition.after.begin(), definition.after.end());
  return absl::OkStatus();
}

absl::Status Encoder::AppendSection(absl::string_view text, bool at_start,
                                    std::vector<int32_t>* ids) {
  if (absl::Status status = tokenizer_.normalizer_.Run(text, &normalized_); !status.ok()) {
    return status;
  }
  at_start = at_start && normalized_.keeps_front;
  tokenizer_.normalized_.Find(normalized_.text, &normalized_sections_);
  for (const Section& section : normalized_sections_) {
    if (section.token >= 0) {
      ids->push_back(section.token);
      continue;
    }
    absl::Status status =
        AppendWords(normalized_.text.substr(section.begin, section.end - section.begin),
                    at_start && section.begin == 0, ids);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Encoder::AppendWords(absl::string_view text, bool at_start,
                                  std::vector<int32_t>* ids) {
  if (absl::Status status = tokenizer_.pre_tokenizer_.Run(text, at_start, &split_); !status.ok()) {
    return status;
  }
  for (const SplitText::Word& word : split_.words) {
    absl::Status status = tokenizer_.model_.Encode(word.text, &scratch_, ids);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
