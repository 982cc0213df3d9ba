#include "tools/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "models/spec/json.h"
#include "tools/terminal.h"

namespace sluice {

std::string TargetOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": cannot ", what, ": ", std::strerror(errno)));
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Whether `path` is a name of what this process prints to: /dev/stdout, or the file behind it.
bool IsStandardOutput(const std::string& path) {
  struct stat file = {}, output = {};
  return stat(path.c_str(), &file) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
         file.st_dev == output.st_dev && file.st_ino == output.st_ino;
}

// Whether a file is written beside `path`, to take its place. A device or a pipe has no place to
// take, and in a folder of somebody else no file can be made.
bool IsReplaced(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = TargetOf(path);
  if (!std::filesystem::exists(target, error)) return true;
  return std::filesystem::is_regular_file(target, error) &&
         access(target.parent_path().c_str(), W_OK) == 0;
}

// A full disk is not a lack of memory, as its code would say.
absl::Status CannotWrite(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot write: ", status.message()));
}

// What was at `path` stays until all of `text` is on the disk. The new file has the permissions of
// the old one.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string target = TargetOf(path);
  const bool replaces = Exists(target);
  if (replaces && access(target.c_str(), W_OK) != 0) return SystemError(path, "write");
  std::error_code ignored;
  const std::filesystem::perms old = std::filesystem::status(target, ignored).permissions();
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(target);
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->Append(text);
  if (status.ok()) status = (*file)->Commit();
  if (status.ok() && replaces) std::filesystem::permissions(target, old, ignored);
  return CannotWrite(path, status);
}

absl::Status Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return SystemError("standard output", "write");
  }
  return absl::OkStatus();
}

absl::Status WriteInPlace(const std::string& path, const std::string& text) {
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return SystemError(path, "write");
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!written || std::fclose(file.release()) != 0) return SystemError(path, "write");
  return absl::OkStatus();
}

}  // namespace

static_assert(kMostJsonBytes == static_cast<int64_t>(JsonLimits().bytes));

absl::StatusOr<std::string> ReadStandardInput() {
  std::string text;
  char block[1 << 16];
  while (const size_t count = std::fread(block, 1, sizeof(block), stdin)) {
    text.append(block, count);
    if (text.size() > static_cast<size_t>(kMostTextBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "standard input has more than ", kMostTextBytes, " bytes, the most that is read"));
    }
  }
  if (std::ferror(stdin) != 0) return SystemError("standard input", "read");
  return text;
}

absl::Status WriteOutput(const std::string& path, const std::string& text) {
  if (path.empty()) return Print(ToPrintableOutput(text));
  if (IsStandardOutput(path)) return Print(text);
  return IsReplaced(path) ? Replace(path, text) : WriteInPlace(path, text);
}

absl::Status CheckOutput(const std::string& path) {
  if (IsStandardOutput(path)) return absl::OkStatus();
  if (Exists(path) && access(path.c_str(), W_OK) != 0) return SystemError(path, "write");
  if (!IsReplaced(path)) return absl::OkStatus();
  return CannotWrite(path, FileWriter::Create(TargetOf(path)).status());
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(errno, absl::StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace sluice
