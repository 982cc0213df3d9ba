#ifndef SLUICE_MODELS_SPEC_SHOW_TEXT_H_
#define SLUICE_MODELS_SPEC_SHOW_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Text of a file as a message shows it, which is valid UTF-8 on one line: controls are escaped as in
// JSON, bytes that are not UTF-8 become U+FFFD, and all else stands as it is.
std::string ShowText(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_SHOW_TEXT_H_
