#ifndef SLUICE_TOOLS_HELP_FLAGS_MEANT_H_
#define SLUICE_TOOLS_HELP_FLAGS_MEANT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

// Which of `flags` are probably meant by `given`, which is none of them, all without dashes in front:
// those that say what other programs call so, else the one that is written most alike. Empty where
// there is none.
std::vector<std::string> FlagsMeant(absl::string_view given, const std::vector<std::string>& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_HELP_FLAGS_MEANT_H_
