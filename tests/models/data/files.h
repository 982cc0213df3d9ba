#ifndef SLUICE_TESTS_MODELS_DATA_FILES_H_
#define SLUICE_TESTS_MODELS_DATA_FILES_H_

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {

// A folder that lives as long as the test.
class TempFolder {
 public:
  explicit TempFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string pattern = (parent / "sluice-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  // ext4 flushes a file that was truncated and written again; a new one is many times faster.
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.flush().good()) << path;
}

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string Gzip(const std::string& bytes) {
  TempFolder folder;
  gzFile file = gzopen((folder / "gz").c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return ReadBytes(folder / "gz");
}

// An IDX file of unsigned bytes.
inline std::string Idx(const std::vector<uint32_t>& dims, const std::string& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>((dim >> shift) & 0xff);
  }
  return bytes + values;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_DATA_FILES_H_
