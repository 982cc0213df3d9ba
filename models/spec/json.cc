#include "models/spec/json.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/spec/git_lfs.h"
#include "models/spec/show_text.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestShown = 60;
constexpr size_t kLongestReason = 200;

// Hands out a text byte by byte and tells how far the parser has come, which its events do not say.
struct CountedBytes {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  size_t* read;

  reference operator*() const { return *at; }
  CountedBytes& operator++() {
    ++at;
    ++*read;
    return *this;
  }
  bool operator==(const CountedBytes& other) const { return at == other.at; }
  bool operator!=(const CountedBytes& other) const { return at != other.at; }
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...", without
// what the caller says better: the place.
std::string Reason(const nlohmann::detail::exception& error) {
  absl::string_view what = error.what();
  what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  if (absl::StartsWith(what, "parse error at ")) {
    what.remove_prefix(std::min(what.size(), what.find(": ") + 2));
  }
  // It quotes what it read, which may be long and need not be printable.
  const bool cut = what.size() > kLongestReason;
  return absl::StrCat("not valid JSON: ", ShowText(what.substr(0, kLongestReason)),
                      cut ? "..." : "");
}

// The quotation mark that opens the string which ends before `end`.
size_t OpeningQuote(absl::string_view text, size_t end) {
  size_t quote = end - 1;
  while (quote > 0) {
    quote = text.rfind('"', quote - 1);
    if (quote == absl::string_view::npos) return 0;
    const size_t before = text.find_last_not_of('\\', quote - 1);  // quote > 0: a '{' comes first
    if ((quote - before) % 2 == 1) return quote;                   // an even number of backslashes
  }
  return 0;
}

// Builds the value, and stops at the first thing that is wrong. What is open lies on a stack of its
// own, so depth costs no stack of the thread.
template <typename Value>
class Builder : public nlohmann::json_sax<Value> {
 public:
  using binary_t = typename Value::binary_t;
  Builder(absl::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  CountedBytes begin() { return {text_.data(), &read_}; }
  CountedBytes end() { return {text_.data() + text_.size(), &read_}; }
  Value Take() { return std::move(root_); }
  const std::string& complaint() const { return complaint_; }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string& digits) override {
    const bool is_whole = digits.find_first_of(".eE") == std::string::npos;
    if (limits_.whole_numbers_fit && is_whole) {
      return Refuse(read_ - std::min(read_, digits.size() + 1),
                    absl::StrCat("the whole number ", digits.substr(0, 40),
                                 " has more than 64 bits; write it as a text, in quotes"));
    }
    return Add(value);
  }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(binary_t& value) override { return Add(std::move(value)); }
  bool start_object(size_t) override { return Enter(Value::object()); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(Value::array()); }
  bool end_array() override { return Leave(); }

  bool key(std::string& name) override {
    const auto [field, is_new] = open_.back()->emplace(name, nullptr);
    place_ = &*field;
    if (open_.back()->size() > limits_.fields) {
      return Refuse(OpeningQuote(text_, read_),
                    absl::StrCat("more than ", limits_.fields, " fields in one object"));
    }
    return is_new || Refuse(OpeningQuote(text_, read_),
                            absl::StrCat("field ", ShowJson(name), " is given twice"));
  }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    // The position is one past what was read last: of a number that no double holds, all of it.
    const bool is_number = dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr;
    const size_t back = is_number ? token.size() : 1;
    return Refuse(position > back ? position - back : 0, Reason(error));
  }

 private:
  bool Refuse(size_t offset, absl::string_view what) {
    complaint_ = absl::StrCat(LineAndColumn(text_, offset), ": ", what);
    return false;
  }

  Value* Place(Value value) {
    Value* place = &root_;
    if (!open_.empty() && open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      place = &open_.back()->back();
    } else if (!open_.empty()) {
      place = place_;
    }
    *place = std::move(value);
    return place;
  }
  bool Add(Value value) {
    Place(std::move(value));
    return true;
  }
  bool Enter(Value empty) {
    if (open_.size() == limits_.depth) {
      return Refuse(read_ - 1, absl::StrCat("nested more than ", limits_.depth, " deep"));
    }
    open_.push_back(Place(std::move(empty)));
    return true;
  }
  bool Leave() {
    open_.pop_back();
    return true;
  }

  const absl::string_view text_;
  const JsonLimits& limits_;
  size_t read_ = 0;  // bytes
  Value root_;
  std::vector<Value*> open_;  // objects and arrays, from the root on
  Value* place_ = nullptr;    // of the value of the key that was read last
  std::string complaint_;
};

template <typename Value>
absl::StatusOr<Value> Parse(absl::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", text.size(), " bytes; expected at most ",
                                                   limits.bytes, " of such a JSON document"));
  }
  if (absl::StartsWith(text, kLfsPointer)) {
    return absl::InvalidArgumentError(absl::StrCat("line 1, column 1: ", kIsLfsPointer));
  }
  Builder<Value> builder(text, limits);
  if (Value::sax_parse(builder.begin(), builder.end(), &builder)) return builder.Take();
  return absl::InvalidArgumentError(builder.complaint());
}

template <typename Value>
absl::StatusOr<Value> ParseObject(absl::string_view text, absl::string_view file,
                                  absl::string_view expected) {
  absl::StatusOr<Value> json = Parse<Value>(text, {});
  if (json.ok() && json->is_object()) return json;
  const std::string why = json.ok() ? absl::StrCat("its type is ", std::string(json->type_name()))
                                    : std::string(json.status().message());
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": not a JSON object (", why, "); ", expected));
}

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text, const JsonLimits& limits) {
  return Parse<Json>(text, limits);
}

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, absl::string_view file,
                                     absl::string_view expected) {
  return ParseObject<Json>(text, file, expected);
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view text,
                                                        const JsonLimits& limits) {
  return Parse<nlohmann::ordered_json>(text, limits);
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJsonObject(absl::string_view text,
                                                              absl::string_view file,
                                                              absl::string_view expected) {
  return ParseObject<nlohmann::ordered_json>(text, file, expected);
}

std::string LineAndColumn(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // 0 where there is none
  return absl::StrCat("line ", line, ", column ", before.size() - start + 1);
}

std::string ShowJson(const Json& value) {
  // Escaped, so that a cut leaves whole characters.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text.replace(kLongestShown, std::string::npos, "...");
  return text;
}

}  // namespace sluice
