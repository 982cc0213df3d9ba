#ifndef SLUICE_MODELS_TOKENS_TEXT_UNICODE_H_
#define SLUICE_MODELS_TOKENS_TEXT_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// UTF-8, and what Unicode says of characters. All texts here are valid UTF-8 unless said otherwise.
namespace sluice {

// The code point that starts at byte `*at` of `text`; moves `*at` to the next one.
inline char32_t NextCodePoint(absl::string_view text, size_t* at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[*at + i]); };
  const char32_t first = byte(0);
  if (first < 0x80) {
    *at += 1;
    return first;
  }
  if (first < 0xE0) {
    const char32_t code = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    *at += 2;
    return code;
  }
  if (first < 0xF0) {
    const char32_t code = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    *at += 3;
    return code;
  }
  const char32_t code =
      (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  *at += 4;
  return code;
}

// The offset of the last code point of a text that is not empty.
size_t LastCodePoint(absl::string_view text);

void AppendUtf8(char32_t code_point, std::string* text);

// The offset of the first byte of any text from which on it is not valid UTF-8 (overlong forms,
// surrogates and values above U+10FFFF are not); npos where there is none.
size_t FindInvalidUtf8(absl::string_view bytes);

// Any bytes as UTF-8: each longest part of a character that goes no further becomes one U+FFFD, as
// the Unicode standard recommends (section 3.9, "U+FFFD Substitution of Maximal Subparts"). Removes
// from `*bytes` what it has appended to `text`: all, or with `more_to_come` all but the first bytes
// of a character whose last ones are still missing.
void MoveValidUtf8(bool more_to_come, std::string* bytes, std::string* text);

bool IsWhitespace(char32_t code_point);  // Unicode's White_Space
bool IsLetter(char32_t code_point);      // general category L, of Unicode 16
bool IsNumber(char32_t code_point);      // general category Nd, Nl or No
// Neither general category C nor Z but for the space, as Python's str.isprintable.
bool IsPrintable(char32_t code_point);
// What `\w` of Rust's regular expressions matches: Alphabetic, M, Nd, Pc and Join_Control (UTS #18,
// annex C).
bool IsWordCharacter(char32_t code_point);

// Each character's lower case by itself, without regard to its neighbours, as Rust's
// char::to_lowercase.
std::string ToLowercase(absl::string_view text);

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

// Writes the normalization form of `text` (UAX #15) to `*normalized`; false, and nothing is
// written, where `text` is in that form already. As in Hugging Face's tokenizers, characters that
// came after Unicode 9.0 have no decomposition and stay where they are.
bool Normalize(NormalizationForm form, absl::string_view text, std::string* normalized);

// The regular expressions of this project's libraries know the characters of Unicode 14. For a text
// with a character that Unicode 15.0 to 16.0 added, writes a copy with stand-ins to `*copy` and
// returns true: each stands at the same bytes, has the same general category, and is known.
bool ReplaceLaterCharacters(absl::string_view text, std::string* copy);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_TEXT_UNICODE_H_
