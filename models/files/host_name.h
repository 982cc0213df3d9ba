#ifndef SLUICE_MODELS_FILES_HOST_NAME_H_
#define SLUICE_MODELS_FILES_HOST_NAME_H_

#include <unistd.h>

#include <array>
#include <string>

namespace sluice {

// The name of this machine, for files that say who wrote them; at most 255 bytes.
inline std::string HostName() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_HOST_NAME_H_
