#ifndef SLUICE_MODELS_FILES_IS_THERE_H_
#define SLUICE_MODELS_FILES_IS_THERE_H_

#include <filesystem>
#include <system_error>

namespace sluice {

// Whether a file or a folder is at `path`; a link is there wherever it leads.
inline bool IsThere(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

// The same, but a link counts as what it leads to.
inline bool LeadsToFile(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_IS_THERE_H_
