#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/render/render_common.h"

namespace sluice {
namespace {

// The first byte of a UTF-8 character, the number of bytes that follow it, and the range of the
// first of these: RFC 3629, section 4. Bytes that fit none of the rows are not UTF-8.
struct Utf8Start {
  unsigned char first, last;
  size_t following;
  unsigned char second_first, second_last;
};
constexpr Utf8Start kUtf8Starts[] = {
    {0x00, 0x7f, 0, 0x80, 0xbf}, {0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf},
    {0xe1, 0xec, 2, 0x80, 0xbf}, {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf},
    {0xf0, 0xf0, 3, 0x90, 0xbf}, {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f}};

}  // namespace

size_t CharacterLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (const Utf8Start& start : kUtf8Starts) {
    if (byte(0) < start.first || byte(0) > start.last) continue;
    const size_t length = 1 + start.following;
    if (length > text.size()) return 0;
    if (length > 1 && (byte(1) < start.second_first || byte(1) > start.second_last)) return 0;
    for (size_t i = 2; i < length; ++i) {
      if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
    }
    return length;
  }
  return 0;
}

std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      absl::StrAppend(&quoted, "\\", text.substr(0, 1));
    } else if (first < 0x20 || first == '<' || first == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(first));
    } else {
      absl::StrAppend(&quoted, text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + "\"";
}

std::string JsonNumber(double value) {
  constexpr int kShort = 15, kExact = 17;
  const std::string text = absl::StrFormat("%.*g", kShort, value);
  return std::strtod(text.c_str(), nullptr) == value ? text
                                                     : absl::StrFormat("%.*g", kExact, value);
}

}  // namespace sluice
