#include "tests/shared_folder.h"

#include <cstdlib>

namespace sluice {

std::filesystem::path SharedFolder() {
  if (const char* shared = std::getenv("SLUICE_SHARED")) return shared;
  return SLUICE_SOURCE_DIR "/../shared";
}

std::filesystem::path SourceFolder() { return SLUICE_SOURCE_DIR; }

}  // namespace sluice
