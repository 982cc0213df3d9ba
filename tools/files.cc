#include "tools/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

absl::Status FileError(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": cannot ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not a file"));
  }
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return FileError(path, "read");
  std::string text;
  char block[1 << 16];
  while (const size_t count = std::fread(block, 1, sizeof(block), file.get())) {
    text.append(block, count);
    if (text.size() > kMostFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": has more than ", kMostFileBytes, " bytes, the most that is read"));
    }
  }
  if (std::ferror(file.get())) return FileError(path, "read");
  return text;
}

absl::Status WriteOutput(const std::string& path, const std::string& text) {
  if (path.empty()) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
      return FileError("standard output", "write");
    }
    return absl::OkStatus();
  }
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return FileError(path, "write");
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!written || std::fclose(file.release()) != 0) return FileError(path, "write");
  return absl::OkStatus();
}

}  // namespace sluice
