#include "pipeline/checkpoint/directory/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <random>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "models/files/disk.h"
#include "models/files/file_writer.h"
#include "models/files/mapped_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kFormatFile[] = "format";
constexpr absl::string_view kFormat = "sluice save directory 1\n";
constexpr char kSaving[] = "saving-";
constexpr char kRemoving[] = "removing-";
constexpr int kNonceBits = 48;
constexpr size_t kNonceDigits = 12;

bool IsDirectory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// As fs::create_directories, but the entries of the new ones are flushed.
absl::Status MakeDirectories(const fs::path& path) {
  if (path.empty() || IsDirectory(path)) return absl::OkStatus();
  const fs::path parent = path.parent_path();
  if (absl::Status status = MakeDirectories(parent); !status.ok()) return status;
  if (disk::MakeFolder(path.string()) != 0 && !(errno == EEXIST && IsDirectory(path))) {
    const int error = errno == EEXIST ? ENOTDIR : errno;
    return FileError(error, absl::StrCat("cannot create ", path.string()));
  }
  return SyncDirectory(parent.empty() ? "." : parent.string());
}

absl::Status WriteMark(const fs::path& own) {
  const fs::path path = own / kFormatFile;
  const int fd = disk::Open(path.string(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return FileError(errno, absl::StrCat("cannot create ", path.string()));
  const ssize_t written = disk::WriteAt(fd, kFormat.data(), kFormat.size(), 0);
  const bool whole = written == static_cast<ssize_t>(kFormat.size());
  const int error = whole && disk::Sync(fd) == 0 ? 0 : written < 0 || whole ? errno : ENOSPC;
  close(fd);
  if (error != 0) return FileError(error, absl::StrCat("cannot write ", path.string()));
  return SyncDirectory(own.string());
}

// What the mark says; nothing where there is none.
std::optional<std::string> ReadMark(const fs::path& own) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open((own / kFormatFile).string());
  if (!file.ok()) return std::nullopt;
  return std::string(file->bytes().begin(), file->bytes().end());
}

// Whether the mark is as a process leaves it that was killed before it was whole, or a power
// failure, which may have made a file of zeros of it.
bool IsBegun(absl::string_view mark) {
  for (size_t i = 0; i < mark.size(); ++i) {
    if (i >= kFormat.size() || (mark[i] != kFormat[i] && mark[i] != '\0')) return false;
  }
  return true;
}

// Another process may be making the mark at this moment.
absl::Status MarkAsOurs(const fs::path& own) {
  std::error_code error;
  const bool real = fs::is_directory(fs::symlink_status(own, error));
  const bool empty = real && fs::is_empty(own, error) && !error;
  const std::optional<std::string> mark = real ? ReadMark(own) : std::nullopt;
  if (mark == kFormat) return absl::OkStatus();
  if (mark ? IsBegun(*mark) : empty) return WriteMark(own);
  return absl::FailedPreconditionError(absl::StrCat(
      own.string(), " was not made by this version of sluice (expected a folder with a file '",
      kFormatFile, "' that says '", absl::StripAsciiWhitespace(kFormat),
      "'); move it away, or save to another directory"));
}

bool IsNonce(absl::string_view text) {
  return text.size() == kNonceDigits &&
         std::all_of(text.begin(), text.end(), [](unsigned char digit) {
           return absl::ascii_isdigit(digit) || (digit >= 'a' && digit <= 'f');
         });
}

// The names that live only during a save; those of notes are FileWriter's.
bool IsTemporary(absl::string_view name) {
  if (const auto note = ParseTemporaryName(name); note.has_value())
    return note->file == kReplacedFile || note->file == kGivenUpFile;
  if (name == kNewLink) return true;
  return (absl::ConsumePrefix(&name, kSaving) || absl::ConsumePrefix(&name, kRemoving)) &&
         IsNonce(name);
}

std::string WithNonce(const std::string& directory, const char* prefix, uint64_t nonce) {
  return OwnPath(directory, absl::StrFormat("%s%012x", prefix, nonce));
}

}  // namespace

std::string OwnPath(const std::string& directory, const std::string& name) {
  return (fs::path(directory) / kOwnFolder / name).string();
}

absl::Status MakeOwnFolder(const std::string& directory) {
  const fs::path own = fs::path(directory) / kOwnFolder;
  if (absl::Status status = MakeDirectories(directory); !status.ok()) return status;
  if (disk::MakeFolder(own.string()) == 0) {
    if (absl::Status status = SyncDirectory(directory); !status.ok()) return status;
  } else if (errno != EEXIST) {
    return FileError(errno, absl::StrCat("cannot create ", own.string()));
  }
  return MarkAsOurs(own);
}

void ClearOwnFolder(const std::string& directory) {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(OwnPath(directory, ""), ignored)) {
    if (IsTemporary(entry.path().filename().string())) leftovers.push_back(entry.path());
  }
  // One of them may have been a step's folder: only once a crash cannot bring it back to its place.
  if (leftovers.empty() || !SyncDirectory(directory).ok()) return;
  for (const fs::path& leftover : leftovers) disk::RemoveAll(leftover.string());
}

uint64_t SomeNonce() {
  std::random_device random;
  return ((uint64_t{random()} << 32) | random()) >> (64 - kNonceBits);
}

std::string SavingFolder(const std::string& directory, uint64_t nonce) {
  return WithNonce(directory, kSaving, nonce);
}

std::string RemovingFolder(const std::string& directory, uint64_t nonce) {
  return WithNonce(directory, kRemoving, nonce);
}

}  // namespace sluice
