#ifndef SLUICE_TESTS_SHARED_FOLDER_H_
#define SLUICE_TESTS_SHARED_FOLDER_H_

#include <cstdlib>
#include <filesystem>

namespace sluice {

// Real tables, profiles and configs that some tests read where they are there: named by the
// environment, else beside the repository.
inline std::filesystem::path SharedFolder() {
  if (const char* shared = std::getenv("SLUICE_SHARED")) return shared;
  return std::filesystem::path(__FILE__).parent_path() / "../../shared";
}

}  // namespace sluice

#endif  // SLUICE_TESTS_SHARED_FOLDER_H_
