#ifndef SLUICE_TOOLS_VERSION_VERSION_H_
#define SLUICE_TOOLS_VERSION_VERSION_H_

#include <string>

namespace sluice {

// What `sluice --version` prints: "sluice 0.1.0" in the first line, then the commit, the build, the
// libraries that the program was built with or is linked to, and those that it loads when they are
// needed, as far as they are here.
std::string VersionText();

std::string VersionNumber();  // "0.1.0"

}  // namespace sluice

#endif  // SLUICE_TOOLS_VERSION_VERSION_H_
