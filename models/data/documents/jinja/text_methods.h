#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_TEXT_METHODS_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_TEXT_METHODS_H_

#include <string>

#include "absl/status/statusor.h"
#include "models/data/documents/jinja/builtins.h"

namespace sluice::jinja {

// What Python's method of a text gives, and Jinja2's filter.
absl::StatusOr<Value> StringMethod(const std::string& name, const std::string& text,
                                   const Values& arguments);
absl::StatusOr<Value> TextFilter(const std::string& name, const std::string& text,
                                 const Values& arguments);

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_TEXT_METHODS_H_
