#include "models/data/documents/jinja/builtins.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"
#include "models/tokens/text/unicode.h"

namespace sluice::jinja {
namespace {

// Whether a value is, or holds, what is no data.
bool HasNoText(const Value& value) {
  return value.is_binary() ||
         (value.is_structured() && std::any_of(value.begin(), value.end(), HasNoText));
}
bool IsNamespace(const Value& value) {
  return value.is_binary() && value.get_binary().has_subtype() && value.get_binary().empty();
}
std::string NameOfBinary(const Value& value) {
  if (IsNamespace(value)) return "a namespace";
  return value.get_binary().has_subtype() ? "a tuple" : "a function or a method";
}
Value PairsOf(const Value& object) {
  Value pairs = Value::array();
  for (const auto& [key, value] : object.items()) pairs.push_back(Value::array({key, value}));
  return pairs;
}

absl::StatusOr<Value> Arithmetic(const std::string& op, int64_t left, int64_t right) {
  int64_t result = 0;
  const bool overflows = (op == "+" && __builtin_add_overflow(left, right, &result)) ||
                         (op == "-" && __builtin_sub_overflow(left, right, &result)) ||
                         (op == "*" && __builtin_mul_overflow(left, right, &result)) ||
                         (right == -1 && __builtin_sub_overflow(int64_t{0}, left, &result));
  if (overflows) return Unsupported(absl::StrCat("a number of more than 64 bits (of '", op, "')"));
  if (op == "+" || op == "-" || op == "*") return Value(result);
  if (right == 0) return Unsupported(absl::StrCat("'", op, "' by 0"));
  // As Python's, which round down: what is left has the sign of `right`.
  const int64_t left_over = left % right;
  const bool rounds_down = left_over != 0 && (left_over < 0) != (right < 0);
  if (op == "//") return Value(left / right - (rounds_down ? 1 : 0));
  if (op == "%") return Value(left_over + (rounds_down ? right : 0));
  return Unsupported(absl::StrCat("'", op, "'"));
}

absl::StatusOr<Value> Arithmetic(const std::string& op, double left, double right) {
  if (op == "+") return Value(left + right);
  if (op == "-") return Value(left - right);
  if (op == "*") return Value(left * right);
  if (op == "/" && right != 0) return Value(left / right);
  return Unsupported(absl::StrCat("'", op, "' of these numbers"));
}

// As Python's repr writes a number that is not whole: 0.5, 100000.0, 1e-05, 1e+16.
std::string FloatText(double value) {
  char digits[64];  // "-1.2345678901234567e-308", the fewest that mean `value`
  const char* const end =
      std::to_chars(std::begin(digits), std::end(digits), value, std::chars_format::scientific).ptr;
  const absl::string_view text(digits, static_cast<size_t>(end - digits));
  int exponent = 0;
  if (!absl::SimpleAtoi(text.substr(text.find('e') + 1), &exponent)) return std::string(text);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(std::begin(digits), std::end(digits), value, std::chars_format::fixed);
  std::string result(digits, fixed.ptr);
  return absl::StrContains(result, '.') ? result : result + ".0";
}

// How json.dumps of Python writes: what it is given by these names.
struct JsonStyle {
  bool ensure_ascii = false;
  int64_t indent = -1;  // none
  std::string between = ", ";
  std::string behind_key = ": ";
  bool sort_keys = false;
};

std::string JsonText(const Value& value, const JsonStyle& style) {
  if (value.is_number_float()) return FloatText(value.get<double>());
  return sluice::JsonText(value, -1, style.ensure_ascii);
}

// What is not defined is no JSON, nor is what it stands in.
absl::Status AppendJson(const Value& value, const JsonStyle& style, int64_t depth,
                        std::string* out) {
  if (value.is_discarded() || value.is_binary()) return WrongType("the filter 'tojson'", value);
  if (!value.is_structured() || value.empty()) {
    absl::StrAppend(out, JsonText(value, style));
    return absl::OkStatus();
  }
  const auto begin_line = [&](int64_t level) {
    if (style.indent >= 0) absl::StrAppend(out, "\n", std::string(level * style.indent, ' '));
  };
  std::vector<std::pair<std::string, const Value*>> elements;
  for (const auto& [key, element] : value.items()) elements.emplace_back(key, &element);
  if (value.is_object() && style.sort_keys) std::sort(elements.begin(), elements.end());
  out->push_back(value.is_object() ? '{' : '[');
  bool first = true;
  for (const auto& [key, element] : elements) {
    if (!std::exchange(first, false)) absl::StrAppend(out, style.between);
    begin_line(depth + 1);
    if (value.is_object()) absl::StrAppend(out, JsonText(Value(key), style), style.behind_key);
    absl::Status status = AppendJson(*element, style, depth + 1, out);
    if (!status.ok()) return status;
  }
  begin_line(depth);
  out->push_back(value.is_object() ? '}' : ']');
  return absl::OkStatus();
}

// The filter of transformers, which differs from Jinja2's: its arguments are those of a JsonStyle,
// with `separators` for the two texts.
absl::StatusOr<Value> ToJson(const Value& value, const Values& arguments) {
  constexpr int64_t kWidest = 16;
  JsonStyle style;
  style.ensure_ascii = IsGiven(arguments, 0) && IsTrue(arguments[0]);
  style.sort_keys = IsGiven(arguments, 3) && IsTrue(arguments[3]);
  if (IsGiven(arguments, 1) && !arguments[1].is_null()) {
    if (!arguments[1].is_number_integer() || arguments[1].get<int64_t>() < 0 ||
        arguments[1].get<int64_t>() > kWidest) {
      return WrongType("the indent of 'tojson'", arguments[1]);
    }
    style.indent = arguments[1].get<int64_t>();
    style.between = ",";
  }
  if (IsGiven(arguments, 2) && !arguments[2].is_null()) {
    const Value& separators = arguments[2];
    if (!separators.is_array() || separators.size() != 2 || !separators[0].is_string() ||
        !separators[1].is_string()) {
      return WrongType("the separators of 'tojson'", separators);
    }
    style.between = separators[0].get<std::string>();
    style.behind_key = separators[1].get<std::string>();
  }
  std::string text;
  absl::Status status = AppendJson(value, style, 0, &text);
  if (!status.ok()) return status;
  return Value(std::move(text));
}

absl::StatusOr<Value> NumberFilter(const std::string& name, const Value& number) {
  constexpr double kMost = 9e18;  // beyond it no int64_t has the number
  const bool is_whole = number.is_number_integer();
  if (name == "abs") {
    return is_whole ? Binary(number < 0 ? "-" : "+", 0, number)
                    : Value(std::abs(number.get<double>()));
  }
  if (name == "float") return Value(number.get<double>());
  if (name == "int" && is_whole) return number;
  if (name == "int" && std::abs(number.get<double>()) < kMost) {
    return Value(static_cast<int64_t>(number.get<double>()));
  }
  return Unsupported(absl::StrCat("the filter '", name, "' of a number"));
}

// As Python's repr writes a text, which need not be UTF-8 in a template.
std::string ReprOf(std::string text) {
  std::string valid, shown;
  MoveValidUtf8(/*more_to_come=*/false, &text, &valid);
  const bool other = absl::StrContains(valid, '\'') && !absl::StrContains(valid, '"');
  const char quote = other ? '"' : '\'';
  for (size_t at = 0; at < valid.size();) {
    const size_t begin = at;
    const char32_t character = NextCodePoint(valid, &at);
    const size_t special = absl::string_view("\n\r\t").find(valid[begin]);
    if (special != absl::string_view::npos) {
      absl::StrAppend(&shown, "\\", absl::string_view("nrt").substr(special, 1));
    } else if (!IsPrintable(character)) {
      const auto code = static_cast<uint32_t>(character);
      absl::StrAppend(&shown, code < 0x100     ? absl::StrFormat("\\x%02x", code)
                              : code < 0x10000 ? absl::StrFormat("\\u%04x", code)
                                               : absl::StrFormat("\\U%08x", code));
    } else {
      if (valid[begin] == quote || valid[begin] == '\\') shown.push_back('\\');
      shown.append(valid, begin, at - begin);
    }
  }
  return absl::StrCat(std::string(1, quote), shown, std::string(1, quote));
}

// As Python's repr writes a value: [1, 'a', None], {'a': True}.
std::string ReprOf(const Value& value) {
  if (value.is_discarded()) return "Undefined";
  if (value.is_string()) return ReprOf(value.get<std::string>());
  if (!value.is_structured()) return TextOf(value);
  std::vector<std::string> parts;
  for (const auto& [key, element] : value.items()) {
    const std::string front = value.is_object() ? absl::StrCat(ReprOf(key), ": ") : "";
    parts.push_back(absl::StrCat(front, ReprOf(element)));
  }
  const std::string all = absl::StrJoin(parts, ", ");
  return value.is_object() ? absl::StrCat("{", all, "}") : absl::StrCat("[", all, "]");
}

// The characters at `first`, `first + by` and so on up to, and without, `last`.
std::string SliceOfText(absl::string_view text, int64_t first, int64_t last, int64_t by) {
  const auto is_taken = [&](int64_t at) {
    const bool within = by > 0 ? at >= first && at < last : at <= first && at > last;
    return within && (at - first) % by == 0;
  };
  std::string result;
  int64_t at = -1;
  for (const char byte : text) {
    if (!ContinuesCharacter(byte)) ++at;
    if (is_taken(at)) result.push_back(byte);
  }
  if (by > 0) return result;
  // Turning all bytes around would turn around those of each character, so these are turned before.
  for (auto begin = result.begin(); begin != result.end();) {
    const auto end = std::find_if_not(begin + 1, result.end(), ContinuesCharacter);
    std::reverse(begin, end);
    begin = end;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

// The one of the two that an order of numbers, or of texts beside a text, has no place for.
const Value& NotCompared(const Value& left, const Value& right) {
  return IsNumber(left) || (left.is_string() && !right.is_string()) ? right : left;
}

const absl::flat_hash_map<absl::string_view, const char*>& OperatorOfTests() {
  static const auto* const operators =
      new absl::flat_hash_map<absl::string_view, const char*>({{"eq", "=="},
                                                               {"equalto", "=="},
                                                               {"==", "=="},
                                                               {"ne", "!="},
                                                               {"!=", "!="},
                                                               {"lt", "<"},
                                                               {"lessthan", "<"},
                                                               {"<", "<"},
                                                               {"le", "<="},
                                                               {"<=", "<="},
                                                               {"gt", ">"},
                                                               {"ge", ">="},
                                                               {">", ">"},
                                                               {"greaterthan", ">"},
                                                               {">=", ">="},
                                                               {"in", "in"}});
  return *operators;
}

// None for a number that is not above 0.
absl::StatusOr<Value> Repeated(const std::string& text, int64_t times) {
  constexpr int64_t kMost = 16 << 20;  // bytes, which are checked before they are made
  const auto size = static_cast<int64_t>(text.size());
  if (times <= 0 || size == 0) return Value("");
  if (times > kMost / size) return Unsupported("'*' that makes a text of more than 16 MiB");
  std::string result;
  result.reserve(static_cast<size_t>(size * times));
  for (int64_t i = 0; i < times; ++i) result += text;
  return Value(std::move(result));
}

}  // namespace

absl::Status Unsupported(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is not supported"));
}

absl::Status WrongType(absl::string_view what, const Value& value) {
  const std::string shown = value.is_discarded() ? "undefined"
                            : value.is_binary()  ? NameOfBinary(value)
                            : HasNoText(value)   ? "what holds a namespace, a tuple or a function"
                                                 : ShowJson(value);
  return absl::InvalidArgumentError(absl::StrCat(what, " cannot take ", shown));
}

std::vector<absl::string_view> CharactersOf(absl::string_view text) {
  std::vector<absl::string_view> characters;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    for (++end; end < text.size() && ContinuesCharacter(text[end]);) ++end;
    characters.push_back(text.substr(begin, end - begin));
  }
  return characters;
}

int64_t LengthOf(const Value& value) {
  if (!value.is_string()) return static_cast<int64_t>(value.size());
  const auto& text = value.get_ref<const std::string&>();  // in characters
  return std::count_if(text.begin(), text.end(), [](char c) { return !ContinuesCharacter(c); });
}

bool IsNumber(const Value& value) { return value.is_number() || value.is_boolean(); }
Value NumberOf(const Value& value) {
  return value.is_boolean() ? Value(value.get<bool>() ? 1 : 0) : value;
}

bool IsEqual(const Value& left, const Value& right) {
  if (left.is_discarded() || right.is_discarded()) {
    return left.is_discarded() && right.is_discarded();
  }
  if (IsNumber(left) && IsNumber(right)) return NumberOf(left) == NumberOf(right);
  if (left.is_array() && right.is_array()) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), IsEqual);
  }
  if (!left.is_object() || !right.is_object()) return left == right;
  if (left.size() != right.size()) return false;
  for (const auto& [key, value] : left.items()) {  // in any order
    const auto other = right.find(key);
    if (other == right.end() || !IsEqual(value, *other)) return false;
  }
  return true;
}

absl::StatusOr<bool> IsBefore(const Value& left, const Value& right) {
  if (IsNumber(left) && IsNumber(right)) return NumberOf(left) < NumberOf(right);
  if (left.is_string() && right.is_string()) {
    return left.get_ref<const std::string&>() < right.get_ref<const std::string&>();
  }
  return WrongType("an order of values", NotCompared(left, right));
}

const Value& NoValue() {
  static const Value* const none = new Value(Value::value_t::discarded);
  return *none;
}

const Value& AFunction() {
  static const Value* const function = new Value(Value::binary({}));
  return *function;
}

absl::Status CheckHasText(absl::string_view what, const Value& value) {
  return HasNoText(value) ? WrongType(what, value) : absl::OkStatus();
}

bool IsTrue(const Value& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

std::string TextOf(const Value& value) {
  if (value.is_discarded()) return "";
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return FloatText(value.get<double>());
  if (value.is_binary()) return "<Namespace>";
  return value.is_structured() ? ReprOf(value) : sluice::JsonText(value);
}

absl::StatusOr<Value> Filter(const std::string& name, const Value& value, const Values& arguments) {
  if (name == "default" || name == "d") {
    const bool also_false = IsGiven(arguments, 1) && IsTrue(arguments[1]);
    const bool keeps = !value.is_discarded() && (!also_false || IsTrue(value));
    if (keeps) return value;
    return IsGiven(arguments, 0) ? arguments[0] : Value("");
  }
  if (value.is_binary()) return WrongType(absl::StrCat("the filter '", name, "'"), value);
  if (name == "string" || name == "trim") {
    absl::Status status = CheckHasText(absl::StrCat("the filter '", name, "'"), value);
    if (!status.ok()) return status;
  }
  if (name == "string") return Value(TextOf(value));
  if (name == "safe") return value;
  if (name == "length" || name == "count") {
    if (!value.is_structured() && !value.is_string())
      return WrongType("the filter 'length'", value);
    return Value(LengthOf(value));
  }
  if (name == "tojson") return ToJson(value, arguments);
  if (name == "items" && value.is_object()) return PairsOf(value);
  if (name == "dictsort" && value.is_object()) return SortPairs(PairsOf(value), arguments);
  if (value.is_string()) return TextFilter(name, value.get<std::string>(), arguments);
  if (value.is_array()) return ListFilter(name, value, arguments);
  if (name == "trim") return TextFilter(name, TextOf(value), arguments);
  if (value.is_object()) {  // of its keys
    Value keys = Value::array();
    for (const auto& [key, element] : value.items()) keys.push_back(key);
    return ListFilter(name, keys, arguments);
  }
  if (IsNumber(value)) return NumberFilter(name, NumberOf(value));
  return Unsupported(absl::StrCat("the filter '", name, "' here"));
}

absl::StatusOr<bool> Test(const std::string& name, const Value& value, const Values& arguments) {
  if (name == "defined") return !value.is_discarded();
  if (name == "undefined") return value.is_discarded();
  if (name == "none") return value.is_null();
  if (name == "string") return value.is_string();
  if (name == "mapping") return value.is_object();
  if (name == "sequence" || name == "iterable") {  // what is not defined is empty
    return value.is_structured() || value.is_string() || value.is_discarded();
  }
  if (name == "boolean") return value.is_boolean();
  if (name == "number") return IsNumber(value);
  if (name == "integer") return value.is_number_integer();
  if (name == "true") return value.is_boolean() && value.get<bool>();
  if (name == "false") return value.is_boolean() && !value.get<bool>();
  if (name == "odd" && value.is_number_integer()) return value.get<int64_t>() % 2 != 0;
  if (name == "even" && value.is_number_integer()) return value.get<int64_t>() % 2 == 0;
  if (name == "float") return value.is_number_float();
  if ((name == "lower" || name == "upper") && value.is_string()) {
    const absl::StatusOr<Value> holds =
        StringMethod(absl::StrCat("is", name), value.get<std::string>(), {});
    if (!holds.ok()) return holds.status();
    return holds->get<bool>();
  }
  if (arguments.size() == 1) {
    const auto operation = OperatorOfTests().find(name);
    if (operation != OperatorOfTests().end()) {
      const absl::StatusOr<Value> holds = Binary(operation->second, value, arguments[0]);
      if (!holds.ok()) return holds.status();
      return holds->get<bool>();
    }
    if (name == "divisibleby") {
      const absl::StatusOr<Value> left_over = Binary("%", value, arguments[0]);
      if (!left_over.ok()) return left_over.status();
      return IsEqual(*left_over, 0);
    }
    const Value& other = arguments[0];
    // Of these there is one each; whether two others are the same is not known here.
    if (name == "sameas" && (other.is_null() || other.is_boolean())) return value == other;
  }
  return Unsupported(absl::StrCat("the test '", name, "'"));
}

absl::StatusOr<Value> Method(const std::string& name, const Value& value, const Values& arguments) {
  if (value.is_string()) return StringMethod(name, value.get<std::string>(), arguments);
  if (value.is_object() && arguments.empty()) {
    if (name == "items") return PairsOf(value);
    if (name == "copy") return value;
    if (name == "keys") return Filter("list", value, {});
    if (name == "values") return Value(Values(value.begin(), value.end()));
  }
  // Of a loop, whose `loop` is such a dictionary.
  if (value.is_object() && name == "cycle" && value.contains("revindex0") && !arguments.empty()) {
    return arguments[value["index0"].get<size_t>() % arguments.size()];
  }
  if (value.is_object() && name == "get" && !arguments.empty() && arguments[0].is_string()) {
    const auto field = value.find(arguments[0].get<std::string>());
    if (field != value.end()) return *field;
    return arguments.size() > 1 ? arguments[1] : Value();
  }
  if (value.is_discarded()) return WrongType(absl::StrCat("the method '", name, "'"), value);
  return Unsupported(absl::StrCat("the method '", name, "'"));
}

absl::StatusOr<Value> Binary(const std::string& op, const Value& left, const Value& right) {
  if (op == "~" && (HasNoText(left) || HasNoText(right))) {
    return WrongType("'~'", HasNoText(left) ? left : right);
  }
  // Two tuples may be equal, and two methods; all that is known here is whether namespaces are.
  const bool compares = op == "==" || op == "!=" || op == "in";
  if (compares && !(IsNamespace(left) && IsNamespace(right)) && HasNoText(left) &&
      HasNoText(right)) {
    return WrongType(absl::StrCat("'", op, "'"), IsNamespace(left) ? right : left);
  }
  if (op == "~") return Value(TextOf(left) + TextOf(right));
  if (op == "==") return Value(IsEqual(left, right));
  if (op == "!=") return Value(!IsEqual(left, right));
  if (op == "in") {
    if (right.is_object())
      return Value(left.is_string() && right.contains(left.get<std::string>()));
    if (right.is_array()) {
      return Value(std::any_of(right.begin(), right.end(),
                               [&](const Value& element) { return IsEqual(left, element); }));
    }
    if (right.is_string() && left.is_string()) {
      return Value(absl::StrContains(right.get<std::string>(), left.get<std::string>()));
    }
    return WrongType("'in'", right);
  }
  if (op == "<" || op == ">" || op == "<=" || op == ">=") {
    const bool swaps = op == ">" || op == "<=";
    const absl::StatusOr<bool> before = swaps ? IsBefore(right, left) : IsBefore(left, right);
    if (!before.ok()) return WrongType(absl::StrCat("'", op, "'"), NotCompared(left, right));
    return Value(*before == (op.size() == 1));
  }
  if (IsNumber(left) && IsNumber(right)) {
    const Value a = NumberOf(left);
    const Value b = NumberOf(right);
    if (op != "/" && a.is_number_integer() && b.is_number_integer()) {
      constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
      if ((a.is_number_unsigned() && a.get<uint64_t>() > kMost) ||
          (b.is_number_unsigned() && b.get<uint64_t>() > kMost)) {
        return Unsupported(absl::StrCat("'", op, "' of a number above ", kMost));
      }
      return Arithmetic(op, a.get<int64_t>(), b.get<int64_t>());
    }
    return Arithmetic(op, a.get<double>(), b.get<double>());
  }
  if (op == "+" && left.is_string() && right.is_string()) {
    return Value(left.get<std::string>() + right.get<std::string>());
  }
  if (op == "*" && (left.is_string() || right.is_string())) {
    const Value times = NumberOf(left.is_string() ? right : left);
    const Value& text = left.is_string() ? left : right;
    if (!times.is_number_integer()) return WrongType("'*'", left.is_string() ? right : left);
    return Repeated(text.get_ref<const std::string&>(), times.get<int64_t>());
  }
  if (op == "+" && left.is_array() && right.is_array()) {
    Value both = left;
    both.insert(both.end(), right.begin(), right.end());
    return both;
  }
  const bool left_is_wrong = !left.is_string() && !IsNumber(left);
  return WrongType(absl::StrCat("'", op, "'"), left_is_wrong ? left : right);
}

absl::StatusOr<const Value*> Item(const Value& value, const Value& index) {
  if (value.is_discarded() || value.is_binary()) return WrongType("an attribute", value);
  if (value.is_object() && index.is_string()) {
    const auto field = value.find(index.get<std::string>());
    return field == value.end() ? &NoValue() : &*field;
  }
  if (value.is_array() && index.is_number_integer()) {
    const auto size = static_cast<int64_t>(value.size());
    const int64_t at =
        index.get<int64_t>() < 0 ? index.get<int64_t>() + size : index.get<int64_t>();
    return at < 0 || at >= size ? &NoValue() : &value[static_cast<size_t>(at)];
  }
  return &NoValue();
}

absl::StatusOr<const Value*> Attribute(const Value& value, const std::string& name) {
  static const auto* const of_dictionaries = new absl::flat_hash_set<absl::string_view>(
      {"copy", "fromkeys", "get", "items", "keys", "values"});
  static const auto* const of_lists =
      new absl::flat_hash_set<absl::string_view>({"copy", "count", "index"});
  static const auto* const of_texts = new absl::flat_hash_set<absl::string_view>(
      {"capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
       "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
       "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
       "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
       "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
       "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
       "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
       "swapcase",     "title",       "translate", "upper",      "zfill"});
  static const auto* const of_numbers = new absl::flat_hash_set<absl::string_view>(
      {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes",
       "fromhex", "hex", "imag", "is_integer", "numerator", "real", "to_bytes"});
  // Jinja2's sandbox hides these.
  static const auto* const changes_dictionaries = new absl::flat_hash_set<absl::string_view>(
      {"clear", "pop", "popitem", "setdefault", "update"});
  if (value.is_object() && changes_dictionaries->contains(name)) return &NoValue();
  if ((value.is_object() && of_dictionaries->contains(name)) ||
      (value.is_array() && of_lists->contains(name)) ||
      (value.is_string() && of_texts->contains(name))) {
    return &AFunction();
  }
  if (IsNumber(value) && of_numbers->contains(name)) {
    return Unsupported(absl::StrCat("the attribute '", name, "' of a number"));
  }
  return Item(value, Value(name));
}

absl::StatusOr<Value> Slice(const Value& value, const Value& begin, const Value& end,
                            const Value& step) {
  if (!value.is_array() && !value.is_string()) return WrongType("a slice", value);
  const int64_t size = LengthOf(value);
  // No step is longer than all there is.
  const int64_t most = std::max<int64_t>(size, 1);
  const int64_t by =
      step.is_number_integer() ? std::clamp(step.get<int64_t>(), -most, most) : int64_t{1};
  if (by == 0) return Unsupported("a slice with this step");
  // Backwards the place in front of the first is one of the borders, and that behind the last none.
  const int64_t lowest = by > 0 ? 0 : -1;
  const int64_t highest = lowest + size;
  const auto border = [&](const Value& at, int64_t otherwise) {
    if (!at.is_number_integer()) return otherwise;
    const int64_t place = at.get<int64_t>() < 0 ? at.get<int64_t>() + size : at.get<int64_t>();
    return std::clamp(place, lowest, highest);
  };
  const int64_t first = border(begin, by > 0 ? lowest : highest);
  const int64_t last = border(end, by > 0 ? highest : lowest);
  if (value.is_string()) {
    return Value(SliceOfText(value.get_ref<const std::string&>(), first, last, by));
  }
  Value result = Value::array();
  for (int64_t i = first; by > 0 ? i < last : i > last; i += by) {
    result.push_back(value[static_cast<size_t>(i)]);
  }
  return result;
}

}  // namespace sluice::jinja
