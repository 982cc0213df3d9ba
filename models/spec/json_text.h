#ifndef SLUICE_MODELS_SPEC_JSON_TEXT_H_
#define SLUICE_MODELS_SPEC_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace sluice {

// The text of a value, with so many spaces per level; -1: on one line. Whatever is not UTF-8 in it,
// as the name of a file may be, becomes U+FFFD, where nlohmann's own dump() throws. `ascii`: with
// escapes for all characters beyond ASCII.
template <typename Value>
std::string JsonText(const Value& value, int indent = -1, bool ascii = false) {
  return value.dump(indent, ' ', ascii, Value::error_handler_t::replace);
}

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_JSON_TEXT_H_
