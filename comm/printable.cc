#include "comm/printable.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

bool IsContinuation(uint8_t byte) { return (byte & 0xC0U) == 0x80U; }

// The bytes of the character whose first byte is `lead`; 0 where no character begins with it.
size_t CharacterLength(uint8_t lead) {
  if (lead < 0x80U) return 1;
  if (lead >= 0xC2U && lead <= 0xDFU) return 2;
  if (lead >= 0xE0U && lead <= 0xEFU) return 3;
  if (lead >= 0xF0U && lead <= 0xF4U) return 4;
  return 0;
}

// Whether `second` may follow `lead` (Unicode 15, table 3-7): no overlong forms, no surrogates,
// nothing above U+10FFFF.
bool IsSecond(uint8_t lead, uint8_t second) {
  if (!IsContinuation(second)) return false;
  switch (lead) {
    case 0xE0U:
      return second >= 0xA0U;
    case 0xEDU:
      return second < 0xA0U;
    case 0xF0U:
      return second >= 0x90U;
    case 0xF4U:
      return second < 0x90U;
    default:
      return true;
  }
}

bool IsControl(const std::string& character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1)
    return (first < 0x20U && first != '\n' && first != '\t') || first == 0x7FU;
  // U+0080 to U+009F.
  return character.size() == 2 && first == 0xC2U && static_cast<uint8_t>(character[1]) < 0xA0U;
}

}  // namespace

std::string PrintableText::Feed(uint8_t byte) {
  std::string shown;
  if (!pending_.empty()) {
    const auto lead = static_cast<uint8_t>(pending_[0]);
    if (pending_.size() == 1 ? !IsSecond(lead, byte) : !IsContinuation(byte)) shown = Finish();
  }
  if (pending_.empty() && CharacterLength(byte) == 0) return shown + kReplacement;
  pending_.push_back(static_cast<char>(byte));
  if (pending_.size() < CharacterLength(static_cast<uint8_t>(pending_[0]))) return shown;
  shown += IsControl(pending_) ? kReplacement : pending_;
  pending_.clear();
  return shown;
}

std::string PrintableText::Finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return kReplacement;
}

std::string ToPrintable(absl::string_view bytes) {
  PrintableText text;
  std::string shown;
  for (const char byte : bytes) {
    // Nearly all of a long output.
    if (text.between_characters() && absl::ascii_isprint(static_cast<uint8_t>(byte))) {
      shown.push_back(byte);
      continue;
    }
    shown += text.Feed(static_cast<uint8_t>(byte));
  }
  return shown + text.Finish();
}

std::string ToPrintableLine(absl::string_view bytes) {
  return absl::StrReplaceAll(ToPrintable(bytes), {{"\n", kReplacement}, {"\t", kReplacement}});
}

}  // namespace sluice
