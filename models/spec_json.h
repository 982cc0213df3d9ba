#ifndef SLUICE_MODELS_SPEC_JSON_H_
#define SLUICE_MODELS_SPEC_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Reads a document that must be one JSON object, and that nobody can make dangerous or ambiguous:
// InvalidArgument names `file` and what is wrong, with line and column where the text is no JSON;
// also for a field given twice in one object, and for values nested so deep that walking over them
// would take the stack. `expected` ends the message: "expected a Hugging Face config.json".
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, absl::string_view file,
                                               absl::string_view expected);

// A value as a message shows it: printable, on one line, and cut where it is long.
std::string ShowJson(const nlohmann::json& value);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_JSON_H_
