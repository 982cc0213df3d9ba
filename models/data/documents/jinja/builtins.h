#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_BUILTINS_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_BUILTINS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// What Jinja2 has built in, as far as templates of chats use it. A value is JSON, with the keys of
// a dictionary in their order; one that is not defined is `Undefined()`, and a binary one is no
// data: a function, or a namespace or a tuple (environment.h). InvalidArgument says what is not
// supported, or wrong.
namespace sluice::jinja {

using Value = nlohmann::ordered_json;
using Values = std::vector<Value>;

inline Value Undefined() { return Value(Value::value_t::discarded); }
// The place of what is not defined.
const Value& NoValue();
// What names a function or a method that is not called: it is defined and true, and no more.
const Value& AFunction();
// The one byte of a binary value that is a tuple.
inline constexpr uint8_t kTuple = 1;
// InvalidArgument that names `what` where `value` is or holds what is no data, and has no text
// here.
absl::Status CheckHasText(absl::string_view what, const Value& value);
bool IsTrue(const Value& value);
// As Python's str writes it.
std::string TextOf(const Value& value);
// Without the white space of Python's str.isspace at its beginning, or its end.
absl::string_view StripSpaces(absl::string_view text, bool left, bool right);

absl::StatusOr<Value> Filter(const std::string& name, const Value& value, const Values& arguments);
absl::StatusOr<bool> Test(const std::string& name, const Value& value, const Values& arguments);
absl::StatusOr<Value> Method(const std::string& name, const Value& value, const Values& arguments);
absl::StatusOr<Value> Binary(const std::string& op, const Value& left, const Value& right);
// value[index]: where it is within `value`, or NoValue().
absl::StatusOr<const Value*> Item(const Value& value, const Value& index);
// value.name: the same, but where Python's type of `value` has a method of that name AFunction(),
// or NoValue() for one that would change it.
absl::StatusOr<const Value*> Attribute(const Value& value, const std::string& name);
// value[begin:end:step] of a list, or of the characters of a text, as Python's; a border that is
// Undefined() is left out.
absl::StatusOr<Value> Slice(const Value& value, const Value& begin, const Value& end,
                            const Value& step);

// What the above are made of: values, and the filters and methods of lists (list_filters.cc) and of
// texts (text_methods.cc).

// InvalidArgument: "`what` is not supported", and "`what` cannot take `value`".
absl::Status Unsupported(absl::string_view what);
absl::Status WrongType(absl::string_view what, const Value& value);

inline bool ContinuesCharacter(char byte) { return (byte & 0xC0) == 0x80; }
// One after another, those of more than one byte whole.
std::vector<absl::string_view> CharactersOf(absl::string_view text);
// Of a text in characters.
int64_t LengthOf(const Value& value);
bool IsNumber(const Value& value);
// A boolean is a number in Python: true is 1.
Value NumberOf(const Value& value);
bool IsEqual(const Value& left, const Value& right);
// left < right, of two numbers or two texts.
absl::StatusOr<bool> IsBefore(const Value& left, const Value& right);

// Whether an argument of a call is given.
inline bool IsGiven(const Values& arguments, size_t at) {
  return at < arguments.size() && !arguments[at].is_discarded();
}

// What the filter gives of a list; where Jinja2 gives a generator, the list of its elements.
absl::StatusOr<Value> ListFilter(const std::string& name, const Value& list,
                                 const Values& arguments);
// The filter `dictsort` of a dictionary: its pairs in the order of their keys, or values.
absl::StatusOr<Value> SortPairs(const Value& pairs, const Values& arguments);
// What Python's method of a text gives, and Jinja2's filter.
absl::StatusOr<Value> StringMethod(const std::string& name, const std::string& text,
                                   const Values& arguments);
absl::StatusOr<Value> TextFilter(const std::string& name, const std::string& text,
                                 const Values& arguments);

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_BUILTINS_H_
