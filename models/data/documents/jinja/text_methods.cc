#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "models/data/documents/jinja/builtins.h"

namespace sluice::jinja {
namespace {

// Python's str.isspace beyond ASCII, in UTF-8.
constexpr absl::string_view kSpaces[] = {" ",
                                         "\t",
                                         "\n",
                                         "\v",
                                         "\f",
                                         "\r",
                                         "\x1c",
                                         "\x1d",
                                         "\x1e",
                                         "\x1f",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe1\x9a\x80",
                                         "\xe2\x80\x80",
                                         "\xe2\x80\x81",
                                         "\xe2\x80\x82",
                                         "\xe2\x80\x83",
                                         "\xe2\x80\x84",
                                         "\xe2\x80\x85",
                                         "\xe2\x80\x86",
                                         "\xe2\x80\x87",
                                         "\xe2\x80\x88",
                                         "\xe2\x80\x89",
                                         "\xe2\x80\x8a",
                                         "\xe2\x80\xa8",
                                         "\xe2\x80\xa9",
                                         "\xe2\x80\xaf",
                                         "\xe2\x81\x9f",
                                         "\xe3\x80\x80"};

absl::string_view Strip(absl::string_view text, absl::Span<const absl::string_view> what, bool left,
                        bool right) {
  const auto once = [&](bool at_end) {
    for (const absl::string_view space : what) {
      if (at_end ? absl::ConsumeSuffix(&text, space) : absl::ConsumePrefix(&text, space)) {
        return true;
      }
    }
    return false;
  };
  while (left && once(false)) {
  }
  while (right && once(true)) {
  }
  return text;
}

absl::StatusOr<Value> StripMethod(const std::string& text, const Values& arguments, bool left,
                                  bool right) {
  if (arguments.empty() || arguments[0].is_null()) {
    return Value(std::string(StripSpaces(text, left, right)));
  }
  if (!arguments[0].is_string()) return WrongType("strip", arguments[0]);
  const auto characters = arguments[0].get<std::string>();
  return Value(std::string(Strip(text, CharactersOf(characters), left, right)));
}

// "upper", "lower", "capitalize", or "title", where words begin behind a byte that `ends_word`.
absl::StatusOr<Value> InCase(const std::string& name, const std::string& text,
                             bool (*ends_word)(unsigned char byte)) {
  for (const char c : text) {
    if (absl::ascii_isascii(static_cast<unsigned char>(c))) continue;
    return Unsupported(absl::StrCat("'", name, "' of a text with characters beyond ASCII"));
  }
  if (name == "upper") return Value(absl::AsciiStrToUpper(text));
  std::string result = absl::AsciiStrToLower(text);
  if (name == "lower") return Value(result);
  bool begins = true;
  for (char& c : result) {
    const auto byte = static_cast<unsigned char>(c);
    if (begins) c = absl::ascii_toupper(byte);
    begins = name == "title" && ends_word(byte);
  }
  return Value(result);
}

// The filter's words end at other places than those of Python's method: "it's" is one.
bool EndsWordOfFilter(unsigned char byte) {
  return absl::ascii_isspace(byte) || absl::StrContains("-({[<", static_cast<char>(byte));
}

// At most so many times where that is not below 0, each at the first place behind the one before.
std::string Replaced(absl::string_view text, absl::string_view from, absl::string_view to,
                     int64_t times) {
  std::string result;
  size_t at = 0;
  for (; times != 0; --times) {
    size_t found = text.find(from, at);
    if (found == absl::string_view::npos) break;
    absl::StrAppend(&result, text.substr(at, found - at), to);
    at = found + from.size();
  }
  absl::StrAppend(&result, text.substr(at));
  return result;
}

// Texts between white space; where there would be more than `most` cuts, and that is not below 0,
// the rest as it stands.
Value Words(absl::string_view text, int64_t most, bool from_right) {
  std::vector<std::pair<size_t, size_t>> places;
  size_t at = 0;
  bool in_word = false;
  for (const absl::string_view character : CharactersOf(text)) {
    const bool is_space = StripSpaces(character, true, false).empty();
    if (!is_space && !in_word) places.emplace_back(at, at);
    in_word = !is_space;
    at += character.size();
    if (in_word) places.back().second = at;
  }
  const size_t count = places.size();
  const bool has_rest = most >= 0 && static_cast<size_t>(most) < count;
  const size_t whole = has_rest ? static_cast<size_t>(most) : count;
  Value words = Value::array();
  if (has_rest && from_right) {
    words.push_back(std::string(text.substr(0, places[count - whole - 1].second)));
  }
  for (size_t i = 0; i < whole; ++i) {
    const auto& [begin, end] = places[from_right ? count - whole + i : i];
    words.push_back(std::string(text.substr(begin, end - begin)));
  }
  if (has_rest && !from_right) words.push_back(std::string(text.substr(places[whole].first)));
  return words;
}

// Texts between `separator`, with at most `most` cuts where that is not below 0.
Value Split(absl::string_view text, absl::string_view separator, int64_t most, bool from_right) {
  Value parts = Value::array();
  for (; most != 0; --most) {
    const size_t begin = from_right ? text.rfind(separator) : text.find(separator);
    if (begin == absl::string_view::npos) break;
    const size_t end = begin + separator.size();
    parts.push_back(std::string(from_right ? text.substr(end) : text.substr(0, begin)));
    text = from_right ? text.substr(0, begin) : text.substr(end);
  }
  parts.push_back(std::string(text));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

// `text.split(separator, maxsplit)`, where none stands for white space.
absl::StatusOr<Value> SplitMethod(const std::string& name, const std::string& text,
                                  const Values& arguments) {
  std::string separator;
  if (IsGiven(arguments, 0) && !arguments[0].is_null()) {
    if (!arguments[0].is_string()) return WrongType(name, arguments[0]);
    separator = arguments[0].get<std::string>();
    if (separator.empty()) return Unsupported(absl::StrCat("'", name, "' at an empty text"));
  }
  int64_t most = -1;
  if (IsGiven(arguments, 1)) {
    if (!arguments[1].is_number_integer()) return WrongType(name, arguments[1]);
    most = arguments[1].get<int64_t>();
  }
  if (arguments.size() > 2) return WrongType(name, arguments[2]);
  const bool from_right = name == "rsplit";
  return separator.empty() ? Words(text, most, from_right)
                           : Split(text, separator, most, from_right);
}

// The ends of lines of Python's str.splitlines.
absl::StatusOr<Value> SplitLines(absl::string_view text) {
  constexpr std::array<absl::string_view, 11> kEnds = {
      "\r\n", "\n",   "\r",       "\v",           "\f",          "\x1c",
      "\x1d", "\x1e", "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
  Value lines = Value::array();
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto* const end = std::find_if(
        kEnds.begin(), kEnds.end(),
        [&](absl::string_view ends_line) { return absl::StartsWith(text.substr(at), ends_line); });
    if (end == kEnds.end()) {
      ++at;
      continue;
    }
    lines.emplace_back(std::string(text.substr(begin, at - begin)));
    begin = at += end->size();
  }
  if (begin < text.size()) lines.emplace_back(std::string(text.substr(begin)));
  return lines;
}

absl::StatusOr<Value> Replace(const std::string& text, const Values& arguments) {
  if (arguments.size() < 2 || arguments.size() > 3 || !arguments[0].is_string() ||
      !arguments[1].is_string() || arguments[0].get_ref<const std::string&>().empty()) {
    return Unsupported("'replace' with these arguments");
  }
  const bool is_counted = IsGiven(arguments, 2) && !arguments[2].is_null();
  if (is_counted && !arguments[2].is_number_integer()) return WrongType("replace", arguments[2]);
  return Value(Replaced(text, arguments[0].get_ref<const std::string&>(),
                        arguments[1].get_ref<const std::string&>(),
                        is_counted ? arguments[2].get<int64_t>() : -1));
}

// Where a text is in another one, in characters, or -1.
int64_t PlaceIn(absl::string_view text, size_t at) {
  return at == absl::string_view::npos ? -1 : LengthOf(Value(std::string(text.substr(0, at))));
}

// `text.startswith(word)`, or `endswith`; the words of a tuple are those of a list here.
absl::StatusOr<Value> HasAtEnd(const std::string& name, const std::string& text,
                               const Values& arguments) {
  if (arguments.size() != 1) {
    return Unsupported(absl::StrCat("'", name, "' with ", arguments.size(), " arguments"));
  }
  const Values words = arguments[0].is_array() ? arguments[0].get<Values>() : Values{arguments[0]};
  for (const Value& word : words) {
    if (!word.is_string()) return WrongType(name, word);
    const auto& text_of_word = word.get_ref<const std::string&>();
    const bool has = name == "startswith" ? absl::StartsWith(text, text_of_word)
                                          : absl::EndsWith(text, text_of_word);
    if (has) return Value(true);
  }
  return Value(false);
}

absl::StatusOr<Value> Join(const std::string& between, const Values& arguments) {
  if (arguments.size() != 1 || !arguments[0].is_array()) {
    return Unsupported("the method 'join' of anything but one list");
  }
  std::vector<std::string> texts;
  for (const Value& element : arguments[0]) {
    if (!element.is_string()) return WrongType("join", element);
    texts.push_back(element.get<std::string>());
  }
  return Value(absl::StrJoin(texts, between));
}

// "isdigit" and its kind, which hold for no empty text.
absl::StatusOr<Value> IsAll(const std::string& name, const std::string& text) {
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isascii(static_cast<unsigned char>(c));
  });
  if (name == "isspace") return Value(!text.empty() && StripSpaces(text, true, false).empty());
  if (!is_ascii) {
    return Unsupported(absl::StrCat("'", name, "' of a text with characters beyond ASCII"));
  }
  bool (*const of)(unsigned char) = name == "isdigit"   ? absl::ascii_isdigit
                                    : name == "isalpha" ? absl::ascii_isalpha
                                    : name == "isalnum" ? absl::ascii_isalnum
                                                        : nullptr;
  if (of != nullptr) {
    return Value(!text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
      return of(static_cast<unsigned char>(c));
    }));
  }
  const std::string cased =
      name == "isupper" ? absl::AsciiStrToUpper(text) : absl::AsciiStrToLower(text);
  const bool has_letters = absl::AsciiStrToUpper(text) != absl::AsciiStrToLower(text);
  return Value(has_letters && cased == text);
}

// The filter: lines behind the first stand `width` further to the right, but for those that are
// empty; `first` and `blank` move these, too.
absl::StatusOr<Value> Indent(const std::string& text, const Values& arguments) {
  constexpr int64_t kWidest = 1000;
  std::string front(4, ' ');
  if (IsGiven(arguments, 0) && arguments[0].is_string()) {
    front = arguments[0].get<std::string>();
  } else if (IsGiven(arguments, 0)) {
    const Value& width = arguments[0];
    if (!width.is_number_integer() || width.get<int64_t>() > kWidest) {
      return WrongType("the width of 'indent'", width);
    }
    front = std::string(static_cast<size_t>(std::max<int64_t>(width.get<int64_t>(), 0)), ' ');
  }
  const bool first = IsGiven(arguments, 1) && IsTrue(arguments[1]);
  const bool blank = IsGiven(arguments, 2) && IsTrue(arguments[2]);
  const absl::StatusOr<Value> lines = SplitLines(text + "\n");
  if (!lines.ok()) return lines.status();
  std::string result;
  for (size_t i = 0; i < lines->size(); ++i) {
    const auto& line = (*lines)[i].get_ref<const std::string&>();
    const bool moves = i == 0 ? first : blank || !line.empty();
    absl::StrAppend(&result, i == 0 ? "" : "\n", moves ? front : "", line);
  }
  return Value(result);
}

// The text's number, or `otherwise`, as Jinja2's filters `int` and `float`.
absl::StatusOr<Value> Number(const std::string& name, const std::string& text,
                             const Values& arguments) {
  if (arguments.size() > 1) return Unsupported(absl::StrCat("'", name, "' with a base"));
  const absl::string_view digits = StripSpaces(text, true, true);
  int64_t whole = 0;
  double number = 0;
  if (absl::StrContains(digits, '_')) return Unsupported("a number with '_'");
  if (name == "int" && absl::SimpleAtoi(digits, &whole)) return Value(whole);
  if (absl::SimpleAtod(digits, &number)) {
    if (std::abs(number) < 9e18) {
      return name == "float" ? Value(number) : Value(static_cast<int64_t>(number));
    }
    return Unsupported(absl::StrCat("the filter '", name, "' of ", digits));
  }
  if (IsGiven(arguments, 0)) return arguments[0];
  return name == "int" ? Value(0) : Value(0.0);
}

// Python's str.format with fields "{}" or "{0}".
absl::StatusOr<Value> Format(absl::string_view text, const Values& arguments) {
  constexpr size_t kMost = size_t{16} << 20;  // bytes, which are checked before they are made
  std::string result;
  size_t next = 0;
  bool counts = false, names = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    const bool brace = byte == '{' || byte == '}';
    if (brace && at + 1 < text.size() && text[at + 1] == byte)
      ++at;  // stands for one
    else if (brace) {
      const size_t end = text.find('}', at);
      const absl::string_view field =
          byte == '{' && end != text.npos ? text.substr(at + 1, end - at - 1) : "?";
      size_t place = next;
      if (!field.empty() && !absl::SimpleAtoi(field, &place))
        return Unsupported("'format' with anything but {} and {0}");
      (field.empty() ? counts : names) = true;
      if (counts && names) return Unsupported("'format' with both {} and {0}");
      if (place >= arguments.size()) return Unsupported("'format' with too few arguments");
      if (absl::Status ok = CheckHasText("format", arguments[place]); !ok.ok()) return ok;
      next = place + 1;
      result += TextOf(arguments[place]);
      if (result.size() > kMost) return Unsupported("'format' that makes more than 16 MiB");
      at = end;
      continue;
    }
    result.push_back(byte);
  }
  return Value(std::move(result));
}

}  // namespace

absl::string_view StripSpaces(absl::string_view text, bool left, bool right) {
  return Strip(text, kSpaces, left, right);
}

absl::StatusOr<Value> StringMethod(const std::string& name, const std::string& text,
                                   const Values& arguments) {
  if (name == "strip") return StripMethod(text, arguments, true, true);
  if (name == "lstrip") return StripMethod(text, arguments, true, false);
  if (name == "rstrip") return StripMethod(text, arguments, false, true);
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "title") {
    return InCase(name, text, [](unsigned char byte) { return !absl::ascii_isalpha(byte); });
  }
  if (name == "startswith" || name == "endswith") return HasAtEnd(name, text, arguments);
  if (name == "split" || name == "rsplit") return SplitMethod(name, text, arguments);
  if (name == "splitlines" && arguments.empty()) return SplitLines(text);
  if (name == "replace") return Replace(text, arguments);
  if (name == "join") return Join(text, arguments);
  if (name == "format") return Format(text, arguments);
  if (arguments.empty() && (name == "isdigit" || name == "isalpha" || name == "isalnum" ||
                            name == "isspace" || name == "isupper" || name == "islower")) {
    return IsAll(name, text);
  }
  if (arguments.size() == 1 && arguments[0].is_string()) {
    const auto& word = arguments[0].get_ref<const std::string&>();
    if (name == "find") return Value(PlaceIn(text, text.find(word)));
    if (name == "rfind") return Value(PlaceIn(text, text.rfind(word)));
    if (name == "count" && !word.empty()) {
      return Value(static_cast<int64_t>(Split(text, word, -1, false).size()) - 1);
    }
    if (name == "removeprefix") return Value(std::string(absl::StripPrefix(text, word)));
    if (name == "removesuffix") return Value(std::string(absl::StripSuffix(text, word)));
  }
  return Unsupported(
      absl::StrCat("the method '", name, "' of a text with ", arguments.size(), " arguments"));
}

// Those of Jinja2; the other methods of a text are no filters.
absl::StatusOr<Value> TextFilter(const std::string& name, const std::string& text,
                                 const Values& arguments) {
  if (name == "trim") return StringMethod("strip", text, arguments);
  if (name == "title") return InCase(name, text, EndsWordOfFilter);
  if (name == "indent") return Indent(text, arguments);
  if (name == "int" || name == "float") return Number(name, text, arguments);
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "replace") {
    return StringMethod(name, text, arguments);
  }
  if (name == "list" || name == "first" || name == "last") {
    Value characters = Value::array();
    for (const absl::string_view character : CharactersOf(text)) {
      characters.push_back(std::string(character));
    }
    return Filter(name, characters, arguments);
  }
  return Unsupported(absl::StrCat("the filter '", name, "' of a text"));
}

}  // namespace sluice::jinja
