#ifndef SLUICE_TESTS_FUZZ_FUZZ_FOLDER_H_
#define SLUICE_TESTS_FUZZ_FUZZ_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "promises.h"

namespace sluice {

// A folder of its own for what a reader takes as files, in that of the system for temporary files.
class FuzzFolder {
 public:
  FuzzFolder() { Require(mkdtemp(path_.data()) != nullptr, "there is a folder to write to"); }
  ~FuzzFolder() { std::filesystem::remove_all(path_); }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a new file, and returns its path. A new file is many times faster than one that is
  // truncated and written again.
  std::string Write(const std::string& name, absl::string_view bytes) const {
    std::string file = path_ + "/" + name;
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  void Clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      std::filesystem::remove_all(entry.path());
  }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "sluice-fuzz-XXXXXX").string();
};

}  // namespace sluice

#endif  // SLUICE_TESTS_FUZZ_FUZZ_FOLDER_H_
