#ifndef SLUICE_MODELS_SPEC_JSON_H_
#define SLUICE_MODELS_SPEC_JSON_H_

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The one place that turns text into JSON values: every reader of the project comes here, and a
// test finds those that do not. Values that come from here are nested so little that code which
// walks over them by recursion, as nlohmann's own copying, comparing and dumping do, needs little
// stack.
namespace sluice {

// What a text may have at most; a text that has more is refused while it is read.
struct JsonLimits {
  size_t bytes = size_t{64} << 20;
  // Objects and arrays inside each other: [[1]] has 2. Far more than any document needs.
  size_t depth = 32;
  size_t fields = std::numeric_limits<size_t>::max();  // of one object
  // Whether a whole number that 64 bits do not hold is refused, and not rounded.
  bool whole_numbers_fit = false;
};

// Reads a JSON value of any type. InvalidArgument says where and what is wrong: "line 3, column 14:
// not valid JSON: ...", for a field that one object has twice (nlohmann would keep the last one),
// and for values nested too deep; without a place for a text that is too long.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, const JsonLimits& limits = {});

// Reads a document that must be an object. InvalidArgument names `file`, and what is wrong as
// ParseJson does; `expected` ends the message: "expected a Hugging Face config.json".
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view file,
                                               absl::string_view expected);

// The same with the fields of every object in the order of the text, for documents that are written
// again; its time is quadratic in the fields of one object.
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view text,
                                                        const JsonLimits& limits);
absl::StatusOr<nlohmann::ordered_json> ParseOrderedJsonObject(absl::string_view text,
                                                              absl::string_view file,
                                                              absl::string_view expected);

// "line 3, column 14", both counted from 1, of the byte at `offset` of `text`.
std::string LineAndColumn(absl::string_view text, size_t offset);

// A value as a message shows it: printable, on one line, and cut where it is long.
std::string ShowJson(const nlohmann::json& value);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_JSON_H_
