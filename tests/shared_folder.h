#ifndef SLUICE_TESTS_SHARED_FOLDER_H_
#define SLUICE_TESTS_SHARED_FOLDER_H_

#include <filesystem>

namespace sluice {

// Real tables, profiles and configs that some tests read where they are there: named by the
// environment (SLUICE_SHARED), else beside the repository.
std::filesystem::path SharedFolder();

// The repository.
std::filesystem::path SourceFolder();

}  // namespace sluice

#endif  // SLUICE_TESTS_SHARED_FOLDER_H_
