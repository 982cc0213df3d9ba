#include "models/tokens/text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

#include <cstdlib>

#include "models/tokens/text/later_characters.h"

namespace sluice {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Of the bytes that follow a first byte: how many, and the bounds of the first of them. The Unicode
// standard, table 3-7.
struct Continuation {
  int bytes = -1;  // -1: no character begins so
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Continuation After(unsigned char first) {
  if (first < 0x80) return {0};
  if (first < 0xC2) return {};
  if (first < 0xE0) return {1};
  if (first == 0xE0) return {2, 0xA0, 0xBF};
  if (first == 0xED) return {2, 0x80, 0x9F};
  if (first < 0xF0) return {2};
  if (first == 0xF0) return {3, 0x90, 0xBF};
  if (first < 0xF4) return {3};
  if (first == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

// What begins at a byte: a character, or the longest part of one.
struct Subpart {
  size_t bytes = 1;
  bool whole = false;
  bool reaches_end = false;  // a part that the end of the text cuts off
};

Subpart SubpartAt(absl::string_view bytes, size_t at) {
  const Continuation rest = After(static_cast<unsigned char>(bytes[at]));
  if (rest.bytes < 0) return {};
  for (int i = 1; i <= rest.bytes; ++i) {
    if (at + i == bytes.size()) return {static_cast<size_t>(i), false, true};
    const auto byte = static_cast<unsigned char>(bytes[at + i]);
    const bool fits = i == 1 ? byte >= rest.low && byte <= rest.high : (byte & 0xC0) == 0x80;
    if (!fits) return {static_cast<size_t>(i), false, false};
  }
  return {static_cast<size_t>(rest.bytes) + 1, true, false};
}

// What ICU says here cannot fail, unless its own data cannot be read.
void Require(UErrorCode error) {
  if (U_FAILURE(error)) std::abort();
}

const icu::Normalizer2& NormalizerOf(NormalizationForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = nullptr;
  switch (form) {
    case NormalizationForm::kNfc:
      normalizer = icu::Normalizer2::getNFCInstance(error);
      break;
    case NormalizationForm::kNfd:
      normalizer = icu::Normalizer2::getNFDInstance(error);
      break;
    case NormalizationForm::kNfkc:
      normalizer = icu::Normalizer2::getNFKCInstance(error);
      break;
    case NormalizationForm::kNfkd:
      normalizer = icu::Normalizer2::getNFKDInstance(error);
      break;
  }
  Require(error);
  return *normalizer;
}

// The characters of Unicode 9.0: the version of unicode-normalization-alignments 0.1.12, which
// Hugging Face's tokenizers 0.23 normalize with.
const icu::UnicodeSet& NormalizedCharacters() {
  static const icu::UnicodeSet& characters = *[] {
    UErrorCode error = U_ZERO_ERROR;
    auto* set = new icu::UnicodeSet(u"[:age=9.0:]", error);
    Require(error);
    return set->freeze();
  }();
  return characters;
}

}  // namespace

size_t LastCodePoint(absl::string_view text) {
  size_t at = text.size() - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

void AppendUtf8(char32_t code_point, std::string* text) {
  const auto append = [text](char32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
    append(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    append(0xE0 | code_point >> 12);
    append(0x80 | (code_point >> 6 & 0x3F));
    append(0x80 | (code_point & 0x3F));
  } else {
    append(0xF0 | code_point >> 18);
    append(0x80 | (code_point >> 12 & 0x3F));
    append(0x80 | (code_point >> 6 & 0x3F));
    append(0x80 | (code_point & 0x3F));
  }
}

size_t FindInvalidUtf8(absl::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    if (static_cast<unsigned char>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const Subpart part = SubpartAt(bytes, at);
    if (!part.whole) return at;
    at += part.bytes;
  }
  return absl::string_view::npos;
}

void MoveValidUtf8(bool more_to_come, std::string* bytes, std::string* text) {
  size_t at = 0;
  while (at < bytes->size()) {
    const Subpart part = SubpartAt(*bytes, at);
    if (part.whole) {
      text->append(*bytes, at, part.bytes);
    } else if (part.reaches_end && more_to_come) {
      break;
    } else {
      AppendUtf8(kReplacement, text);
    }
    at += part.bytes;
  }
  bytes->erase(0, at);
}

bool IsWhitespace(char32_t code_point) { return u_isUWhiteSpace(static_cast<UChar32>(code_point)); }

bool IsLetter(char32_t code_point) {
  return (U_GET_GC_MASK(static_cast<UChar32>(StandInOf(code_point))) & U_GC_L_MASK) != 0;
}

bool IsNumber(char32_t code_point) {
  constexpr uint32_t kNumbers = U_GC_ND_MASK | U_GC_NL_MASK | U_GC_NO_MASK;
  const auto code = static_cast<UChar32>(StandInOf(code_point));
  return (U_GET_GC_MASK(code) & kNumbers) != 0 || IsNumberOfUnicode17(code_point);
}

bool IsPrintable(char32_t code_point) {
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  const auto code = static_cast<UChar32>(StandInOf(code_point));
  return code_point == ' ' || (U_GET_GC_MASK(code) & kHidden) == 0;
}

bool IsWordCharacter(char32_t code_point) {
  constexpr uint32_t kWord = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  const auto code = static_cast<UChar32>(StandInOf(code_point));
  return (U_GET_GC_MASK(code) & kWord) != 0 || u_isUAlphabetic(code) ||
         u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL);
}

std::string ToLowercase(absl::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t code_point = NextCodePoint(text, &at);
    const auto simple = static_cast<char32_t>(u_tolower(static_cast<UChar32>(code_point)));
    AppendUtf8(simple == code_point ? LaterLowercaseOf(code_point) : simple, &lower);
    // The only character whose lower case is two: an i and a dot above it.
    if (code_point == 0x130) AppendUtf8(0x307, &lower);
  }
  return lower;
}

bool Normalize(NormalizationForm form, absl::string_view text, std::string* normalized) {
  const icu::Normalizer2& normalizer = NormalizerOf(form);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  UErrorCode error = U_ZERO_ERROR;
  // Each part of a normalized text is normalized, so the filter below would change nothing either.
  const bool is_normalized = normalizer.isNormalizedUTF8(piece, error);
  Require(error);
  if (is_normalized) return false;
  const icu::FilteredNormalizer2 filtered(normalizer, NormalizedCharacters());
  normalized->clear();
  icu::StringByteSink<std::string> sink(normalized, piece.length());
  filtered.normalizeUTF8(0, piece, sink, nullptr, error);
  Require(error);
  return true;
}

bool ReplaceLaterCharacters(absl::string_view text, std::string* copy) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    // None of them is in the part of Unicode whose characters take one or two bytes.
    if (static_cast<unsigned char>(text[at]) < 0xE0) {
      ++at;
      continue;
    }
    const size_t start = at;
    const char32_t code_point = NextCodePoint(text, &at);
    const char32_t stand_in = StandInOf(code_point);
    if (stand_in == code_point) continue;
    if (!found) copy->assign(text.data(), text.size());
    found = true;
    std::string bytes;
    AppendUtf8(stand_in, &bytes);
    copy->replace(start, at - start, bytes);
  }
  return found;
}

}  // namespace sluice
