#include "models/files/file_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/files/disk.h"

namespace sluice {
namespace {

constexpr size_t kLargestWrite = size_t{1} << 30;  // the kernel stops a little below 2 GiB
constexpr int kAttempts = 1000;
constexpr absl::string_view kTemporary = ".tmp-";  // PROCESS-ATTEMPT follows

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

std::string Hex(XXH128_hash_t hash) {
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

struct HashDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

class PosixFileWriter : public FileWriter {
 public:
  PosixFileWriter(std::string path, std::string temporary, int fd)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        fd_(fd),
        hash_(XXH3_createState()) {
    XXH3_128bits_reset(hash_.get());
  }

  ~PosixFileWriter() override {
    if (fd_ >= 0) close(fd_);
    if (!committed_) disk::Remove(temporary_);
  }

  absl::Status Append(const void* data, size_t size) override {
    assert(fd_ >= 0);
    const char* next = static_cast<const char*>(data);
    for (size_t left = size; left > 0;) {
      const ssize_t written = disk::Write(fd_, next, std::min(left, kLargestWrite));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError(errno, absl::StrCat("cannot write ", path_));
      next += written;
      left -= static_cast<size_t>(written);
    }
    XXH3_128bits_update(hash_.get(), data, size);
    size_ += size;
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    assert(fd_ >= 0);
    const bool synced = disk::Sync(fd_) == 0;
    const int sync_error = errno;
    const bool closed = close(fd_) == 0;
    fd_ = -1;
    if (!synced) return FileError(sync_error, absl::StrCat("cannot flush ", path_));
    if (!closed) return FileError(errno, absl::StrCat("cannot close ", path_));
    if (disk::Rename(temporary_, path_) != 0) {
      return FileError(errno, absl::StrCat("cannot rename ", temporary_, " to ", path_));
    }
    committed_ = true;
    return SyncDirectory(DirectoryOf(path_));
  }

  uint64_t size() const override { return size_; }
  std::string checksum() const override { return Hex(XXH3_128bits_digest(hash_.get())); }

 private:
  std::string path_;
  std::string temporary_;
  int fd_;
  bool committed_ = false;
  uint64_t size_ = 0;
  std::unique_ptr<XXH3_state_t, HashDeleter> hash_;
};

}  // namespace

absl::Status FileError(int error_number, absl::string_view what) {
  if (error_number == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": the file size limit is reached"));
  }
  return absl::ErrnoToStatus(error_number, what);
}

absl::StatusOr<std::unique_ptr<FileWriter>> FileWriter::Create(const std::string& path) {
  // Names that other writers use, or that a crash left behind, are skipped.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string temporary = absl::StrCat(path, kTemporary, getpid(), "-", attempt);
    const int fd = disk::Open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return std::make_unique<PosixFileWriter>(path, std::move(temporary), fd);
    if (errno != EEXIST) return FileError(errno, absl::StrCat("cannot create ", temporary));
  }
  return absl::AlreadyExistsError(
      absl::StrCat("too many temporary files beside ", path, "; remove ", path, kTemporary, "*"));
}

std::optional<TemporaryName> ParseTemporaryName(absl::string_view name) {
  const size_t ending = name.rfind(kTemporary);
  if (ending == name.npos || ending == 0) return std::nullopt;
  const absl::string_view numbers = name.substr(ending + kTemporary.size());
  const size_t dash = numbers.find('-');
  if (dash == numbers.npos || !IsNumber(numbers.substr(dash + 1))) return std::nullopt;
  TemporaryName temporary = {.file = std::string(name.substr(0, ending))};
  const absl::string_view process = numbers.substr(0, dash);
  if (!IsNumber(process) || !absl::SimpleAtoi(process, &temporary.process)) return std::nullopt;
  return temporary;
}

std::string Checksum(const void* data, size_t size) { return Hex(XXH3_128bits(data, size)); }

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = disk::Open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, absl::StrCat("cannot open the directory ", directory));
  // Some network file systems cannot flush a directory and return EINVAL; nothing better can be
  // done there.
  const bool synced = disk::Sync(fd) == 0 || errno == EINVAL;
  const int error = errno;
  close(fd);
  if (!synced) return FileError(error, absl::StrCat("cannot flush the directory ", directory));
  return absl::OkStatus();
}

}  // namespace sluice
