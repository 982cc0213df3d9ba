#ifndef SLUICE_TOOLS_HELP_SUGGESTED_VALUES_H_
#define SLUICE_TOOLS_HELP_SUGGESTED_VALUES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

// What a shell may offer for a value that is any text.
struct SuggestedValues {
  std::vector<std::string> values;
  bool files = true;  // names of files and folders, too
};

// Of the flag or positional argument `option` ("--device", "MODEL") of `command` ("plan",
// "schedule show"). Files where nothing is known of it.
SuggestedValues SuggestValues(absl::string_view command, absl::string_view option);

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_SUGGESTED_VALUES_H_
