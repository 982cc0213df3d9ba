#include "models/tokens/text/oniguruma.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

// Oniguruma's \s is Unicode's White_Space; PCRE2's has U+180E as well.
constexpr absl::string_view kSpace = "\\p{White_Space}";
constexpr absl::string_view kNoSpace = "\\P{White_Space}";
// Without regard to case, these are one character to Oniguruma, too, which PCRE2 does not know:
// U+00DF, or a ligature. Longer ones begin with one of them.
constexpr absl::string_view kFolds[] = {"ss", "st", "ff", "fi", "fl"};

bool IsScript(absl::string_view name) {
  return u_getPropertyValueEnum(UCHAR_SCRIPT, std::string(name).c_str()) != UCHAR_INVALID_CODE;
}

class Translation {
 public:
  explicit Translation(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < pattern_.size() && status_.ok()) Step();
    if (!status_.ok()) return status_;
    return out_;
  }

 private:
  void Refuse(absl::string_view what) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(what, " at byte ", at_, " of the regular expression ",
                     absl::CHexEscape(pattern_), " is not supported"));
  }
  bool Next(absl::string_view text) const { return absl::StartsWith(pattern_.substr(at_), text); }
  void Copy(size_t bytes) {
    absl::StrAppend(&out_, pattern_.substr(at_, bytes));
    at_ += bytes;
  }

  void Step() {
    const size_t start = at_;
    switch (pattern_[at_]) {
      case '\\':
        return Escape();
      case '[':
        return Class();
      case '(':
        Group();
        return KeepLiteral(start);
      case ')':
        if (ignores_case_.size() > 1) ignores_case_.pop_back();
        Copy(1);
        return KeepLiteral(start);
      case '{':
        Repeat();
        return KeepLiteral(start);
      case '#':  // a comment only with (?x), which is refused
      default:
        return Character();
    }
  }

  void Character() {
    const size_t start = at_;
    const char32_t code_point = NextCodePoint(pattern_, &at_);
    if (!TakeLiteral(code_point, start)) return;
    absl::StrAppend(&out_, pattern_.substr(start, at_ - start));
  }

  // Of a character that stands for itself, and was written from `start` to at_; whether it may.
  bool TakeLiteral(char32_t character, size_t start) {
    const bool ignores_case = ignores_case_.back();
    if (ignores_case && character >= 0x80) {
      at_ = start;
      Refuse("a character beyond ASCII without regard to case");
      return false;
    }
    if (in_class_) return true;
    const std::string both = {literal_end_ == start ? literal_ : '\0',
                              absl::ascii_tolower(static_cast<unsigned char>(character))};
    if (ignores_case && std::find(std::begin(kFolds), std::end(kFolds), both) != std::end(kFolds)) {
      at_ = start;
      Refuse(absl::StrCat("the second of '", both, "', one character without regard to case,"));
      return false;
    }
    literal_ = ignores_case ? both[1] : '\0';
    literal_end_ = at_;
    return true;
  }
  // Brackets and {1} from `start` to at_ need not part what stands around them.
  void KeepLiteral(size_t start) {
    if (literal_end_ == start) literal_end_ = at_;
  }

  // A backslash and what belongs to it, outside and inside of a class.
  void Escape() {
    if (at_ + 1 == pattern_.size()) return Refuse("a backslash at the end");
    const char letter = pattern_[at_ + 1];
    switch (letter) {
      case 's':
      case 'S':
        absl::StrAppend(&out_, letter == 's' ? kSpace : kNoSpace);
        at_ += 2;
        return;
      case 'v':  // a vertical tab; PCRE2's is a class
        absl::StrAppend(&out_, "\\x0b");
        at_ += 2;
        return;
      case 'p':
      case 'P':
        return Property();
      case 'x':
        return HexCharacter();
      case 'u':
        return ShortHexCharacter();
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
      case 'd':
      case 'D':
        return Copy(2);
      default:
        if (absl::ascii_isalnum(static_cast<unsigned char>(letter))) {
          return Refuse(absl::StrCat("\\", absl::string_view(&letter, 1)));
        }
        if (static_cast<unsigned char>(letter) >= 0x80) return Refuse("a backslash before this");
        return Copy(2);
    }
  }

  // \p{L}, \p{^L}, \P{Lu}, \p{Han}: names of categories and scripts are the same in both, but by
  // the name of a script PCRE2 also means what several scripts share.
  void Property() {
    const size_t end = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || end == absl::string_view::npos) {
      return Refuse("a property without braces");
    }
    absl::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool caret = absl::ConsumePrefix(&name, "^");
    const bool negated = (pattern_[at_ + 1] == 'P') != caret;
    for (const char c : name) {
      if (!absl::ascii_isalpha(static_cast<unsigned char>(c)) && c != '_') {
        return Refuse("such a property");
      }
    }
    absl::StrAppend(&out_, negated ? "\\P{" : "\\p{", IsScript(name) ? "sc:" : "", name, "}");
    at_ = end + 1;
  }

  // \x41 and \x{1F600}.
  void HexCharacter() {
    if (at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{') {
      const size_t end = pattern_.find('}', at_);
      if (end == absl::string_view::npos) return Refuse("\\x{ without }");
      return CodePoint(at_ + 3, end - at_ - 3, end + 1);
    }
    CodePoint(at_ + 2, 2, at_ + 4);
  }
  void ShortHexCharacter() { CodePoint(at_ + 2, 4, at_ + 6); }

  void CodePoint(size_t start, size_t digits, size_t end) {
    const absl::string_view hex = pattern_.substr(std::min(start, pattern_.size()), digits);
    bool is_hex = !hex.empty() && hex.size() == digits;
    for (const char c : hex) is_hex &= absl::ascii_isxdigit(static_cast<unsigned char>(c));
    // Two digits of 80 and more would be a byte to one and a character to the other.
    uint32_t character = 0;
    if (!is_hex || digits > 6 || (digits == 2 && hex[0] >= '8') ||
        !absl::SimpleHexAtoi(hex, &character)) {
      return Refuse("such a character");
    }
    const size_t from = std::exchange(at_, end);
    if (TakeLiteral(character, from)) absl::StrAppend(&out_, "\\x{", hex, "}");
  }

  void Class() {
    Copy(1);
    if (Next("^")) Copy(1);
    in_class_ = true;
    bool first = true;
    while (at_ < pattern_.size() && status_.ok()) {
      if (pattern_[at_] == ']' && !first) {
        in_class_ = false;
        return Copy(1);
      }
      if (pattern_[at_] == ']') return Refuse("an empty class, or ] as the first of one,");
      if (pattern_[at_] == '[') return Refuse("[ inside of a class");
      if (Next("&&")) return Refuse("an intersection of classes");
      if (pattern_[at_] == '\\') {
        Escape();
      } else {
        Character();
      }
      first = false;
    }
    if (status_.ok()) Refuse("a class without an end");
  }

  void Group() {
    for (const absl::string_view start : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (Next(start)) return Open(start.size(), ignores_case_.back());
    }
    if (Next("(?i:")) return Open(4, true);
    if (Next("(?-i:")) return Open(5, false);
    if (Next("(?")) return Refuse("such a group");
    if (Next("(*")) return Refuse("a verb");
    Open(1, ignores_case_.back());
  }
  void Open(size_t bytes, bool ignores_case) {
    ignores_case_.push_back(ignores_case);
    Copy(bytes);
  }

  // {2}, {1,3}, {2,}; whatever else may follow a brace is text in one of the two.
  void Repeat() {
    const size_t end = pattern_.find('}', at_);
    const absl::string_view inside =
        end == absl::string_view::npos ? "" : pattern_.substr(at_ + 1, end - at_ - 1);
    bool digits_first = !inside.empty() && absl::ascii_isdigit(inside[0]);
    int commas = 0;
    for (const char c : inside) {
      commas += c == ',' ? 1 : 0;
      digits_first &= c == ',' || absl::ascii_isdigit(static_cast<unsigned char>(c));
    }
    if (!digits_first || commas > 1) return Refuse("such a use of {");
    Copy(inside.size() + 2);
    if (Next("+")) return Refuse("a + after a repetition");
    // Of {2}? nothing or all to Oniguruma, while {2,3}? is as few as can be to both.
    if (commas == 0 && Next("?")) Refuse("a ? after a number of repetitions");
  }

  const absl::string_view pattern_;
  size_t at_ = 0;
  std::vector<bool> ignores_case_ = {false};  // of the groups that are open, from the outermost on
  bool in_class_ = false;
  char literal_ = '\0';     // the last one outside of classes, where case does not matter
  size_t literal_end_ = 0;  // where a neighbour of it would begin
  std::string out_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::string> TranslateOniguruma(absl::string_view pattern) {
  return Translation(pattern).Run();
}

std::string EscapeForPcre2(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !absl::ascii_isalnum(byte)) {
      absl::StrAppend(&escaped, "\\x{", absl::Hex(byte), "}");
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

}  // namespace sluice
