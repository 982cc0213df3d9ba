#include "models/tokens/encoder.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

// The bytes of the character at `begin`, which is no white space, or 0 where it is not the first of
// a line, or perhaps white space.
size_t FirstOfLine(absl::string_view text, size_t begin) {
  if (begin == 0 || text[begin - 1] != '\n') return 0;
  size_t end = begin;
  const char32_t character = NextCodePoint(text, &end);
  const bool is_ascii = character < 0x80;
  const bool is_ink =
      is_ascii ? absl::ascii_isgraph(static_cast<unsigned char>(character)) : IsLetter(character);
  return is_ink ? end - begin : 0;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> Encode(const Tokenizer& tokenizer, absl::string_view text,
                                            SpecialTokens special) {
  std::vector<int32_t> ids;
  Encoder encoder(tokenizer);
  absl::Status status = encoder.Append(text, special, &ids);
  if (!status.ok()) return status;
  return ids;
}

absl::Status Encoder::Append(absl::string_view text, SpecialTokens special,
                             std::vector<int32_t>* ids, std::vector<TokenPlace>* places) {
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
      if (places != nullptr) places->push_back({section.begin, section.end, ids->size()});
      ids->push_back(section.token);
      continue;
    }
    absl::Status status = AppendSection(text, section.begin, section.end, ids, places);
    if (!status.ok()) return status;
  }
  if (around) ids->insert(ids->end(), definition.after.begin(), definition.after.end());
  return absl::OkStatus();
}

absl::Status Encoder::AppendSection(absl::string_view whole, size_t begin, size_t end,
                                    std::vector<int32_t>* ids, std::vector<TokenPlace>* places) {
  const absl::string_view text = whole.substr(begin, end - begin);
  if (absl::Status status = tokenizer_.normalizer_.Run(text, &normalized_); !status.ok()) {
    return status;
  }
  const bool at_start = begin == 0 && normalized_.keeps_front;
  const bool is_changed = normalized_.text.data() != text.data();
  if (is_changed || !tokenizer_.lines_begin_words_) places = nullptr;
  tokenizer_.normalized_.Find(normalized_.text, &normalized_sections_);
  for (const Section& section : normalized_sections_) {
    if (section.token >= 0) {
      ids->push_back(section.token);
      continue;
    }
    absl::Status status =
        AppendWords(whole, normalized_.text.substr(section.begin, section.end - section.begin),
                    at_start && section.begin == 0, ids, places);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Encoder::AppendWords(absl::string_view whole, absl::string_view text, bool at_start,
                                  std::vector<int32_t>* ids, std::vector<TokenPlace>* places) {
  if (absl::Status status = tokenizer_.pre_tokenizer_.Run(text, at_start, &split_); !status.ok()) {
    return status;
  }
  for (const SplitText::Word& word : split_.words) {
    if (places != nullptr) {
      const auto begin = static_cast<size_t>(word.text.data() - whole.data());
      const size_t length = FirstOfLine(whole, begin);
      if (length > 0) places->push_back({begin, begin + length, ids->size()});
    }
    absl::Status status = tokenizer_.model_.Encode(word.text, &scratch_, ids);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
