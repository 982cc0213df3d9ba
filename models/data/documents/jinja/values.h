#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_VALUES_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_VALUES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/data/documents/jinja/builtins.h"

// What filters and methods ask of values.
namespace sluice::jinja {

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

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_VALUES_H_
