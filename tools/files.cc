#include "tools/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/files/file_writer.h"
#include "models/files/write_all.h"
#include "models/spec/json.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // that Linux follows, one after the other

// Where the links lead that begin at `path`, also where nothing is there. Entries of /proc/PID/fd
// are links too, but of another kind: they are what the descriptor has open, whatever they read.
fs::path FollowLinks(const fs::path& path, const fs::path& descriptors) {
  fs::path at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    // The current directory may have been removed.
    const fs::path whole = fs::absolute(at, error);
    if (error) return at;
    const fs::path folder = fs::canonical(whole.parent_path(), error);
    if (error) return at;
    at = folder / at.filename();
    if (folder == descriptors) return at;
    const fs::path next = fs::read_symlink(at, error);
    if (error) return at;  // it is no link
    at = folder / next;
  }
  return path;
}

// The descriptor of this process that `path` names, as /dev/stdout and /dev/fd/3 do; -1: none.
int DescriptorOf(const std::string& path) {
  std::error_code error;
  const fs::path descriptors = fs::canonical("/proc/self/fd", error);
  if (error) return -1;
  const fs::path end = FollowLinks(path, descriptors);
  int number = -1;
  return end.parent_path() == descriptors && absl::SimpleAtoi(end.filename().string(), &number)
             ? number
             : -1;
}

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
  return fs::exists(path, ignored);
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
  const fs::path target = TargetOf(path);
  if (!fs::exists(target, error)) return true;
  return fs::is_regular_file(target, error) && access(target.parent_path().c_str(), W_OK) == 0;
}

// A full disk is not a lack of memory, as its code would say.
absl::Status CannotWrite(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  absl::string_view why = status.message();
  absl::ConsumePrefix(&why, absl::StrCat("cannot write ", TargetOf(path), ": "));  // says it, too
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot write: ", why));
}

// What was at `path` stays until all of `text` is on the disk. The new file has the permissions of
// the old one.
absl::Status Replace(const std::string& path, const std::string& text) {
  const std::string target = TargetOf(path);
  const bool replaces = Exists(target);
  if (replaces && access(target.c_str(), W_OK) != 0) return SystemError(path, "write");
  std::error_code ignored;
  const fs::perms old = fs::status(target, ignored).permissions();
  const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(target);
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->Append(text);
  if (status.ok()) status = (*file)->Commit();
  if (status.ok() && replaces) fs::permissions(target, old, ignored);
  return CannotWrite(path, status);
}

absl::Status Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return SystemError("standard output", "write");
  }
  return absl::OkStatus();
}

// `descriptor`: the one that `path` names, so that what others write there stands before or after
// `text`; -1: none.
absl::Status WriteInPlace(const std::string& path, int descriptor, const std::string& text) {
  File file(descriptor >= 0 ? fdopen(dup(descriptor), "wb") : std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return SystemError(path, "write");
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!written || std::fclose(file.release()) != 0) return SystemError(path, "write");
  return absl::OkStatus();
}

}  // namespace

std::string TargetOf(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (!error) return target.string();
  return fs::is_symlink(path, error) ? FollowLinks(path, {}).string() : path;
}

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
  const int descriptor = DescriptorOf(path);
  if (descriptor >= 0) return WriteInPlace(path, descriptor, text);
  return IsReplaced(path) ? Replace(path, text) : WriteInPlace(path, -1, text);
}

absl::Status CheckOutput(const std::string& path) {
  if (IsStandardOutput(path)) return absl::OkStatus();
  if (const int descriptor = DescriptorOf(path); descriptor >= 0) {
    return fcntl(descriptor, F_GETFL) >= 0 ? absl::OkStatus() : SystemError(path, "write");
  }
  if (Exists(path) && access(path.c_str(), W_OK) != 0) return SystemError(path, "write");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    errno = EISDIR;
    return SystemError(path, "write");
  }
  if (!IsReplaced(path)) return absl::OkStatus();
  return CannotWrite(path, FileWriter::Create(TargetOf(path)).status());
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  const int error = WriteAllTo(fd, bytes);
  return error == 0 ? absl::OkStatus() : FileError(error, absl::StrCat("cannot write ", path));
}

}  // namespace sluice
