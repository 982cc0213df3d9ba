#include "models/data/corpora/token_store.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "models/files/write_all.h"

namespace sluice {
namespace {

constexpr int64_t kEach = sizeof(int32_t);

class HeldSource : public TokenSource {
 public:
  explicit HeldSource(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    std::copy_n(tokens_.begin() + begin, out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Checksum() const override {
    return XXH3_64bits(tokens_.data(), tokens_.size() * sizeof(int32_t));
  }

 private:
  const std::vector<int32_t> tokens_;
};

// A file that only this process can reach, and so nobody makes shorter.
class SpilledSource : public TokenSource {
 public:
  SpilledSource(int fd, int64_t tokens) : fd_(fd), tokens_(tokens) {}
  ~SpilledSource() override { close(fd_); }
  SpilledSource(const SpilledSource&) = delete;
  SpilledSource& operator=(const SpilledSource&) = delete;

  int64_t size() const override { return tokens_; }
  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    auto* const bytes = reinterpret_cast<char*>(out.data());
    const size_t size = out.size() * sizeof(int32_t);
    for (size_t have = 0; have < size;) {
      const ssize_t got =
          pread(fd_, bytes + have, size - have, begin * kEach + static_cast<int64_t>(have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return absl::ErrnoToStatus(errno, "cannot read the temporary file of tokens");
      if (got == 0) return absl::DataLossError("the temporary file of tokens has shrunk");
      have += static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> Checksum() const override {
    constexpr int64_t kBlock = 1 << 18;
    std::vector<int32_t> block;
    uint64_t hash = 0;
    for (int64_t at = 0; at < tokens_; at += kBlock) {
      block.resize(static_cast<size_t>(std::min(kBlock, tokens_ - at)));
      if (absl::Status status = Read(at, absl::MakeSpan(block)); !status.ok()) return status;
      hash = XXH3_64bits_withSeed(block.data(), block.size() * sizeof(int32_t), hash);
    }
    return hash;
  }

 private:
  const int fd_;
  const int64_t tokens_;
};

std::string TemporaryFolder() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  return error ? "/tmp" : folder.string();
}

absl::StatusOr<int> OpenUnnamed(const std::string& folder) {
  std::string name = absl::StrCat(folder, "/sluice-tokens-XXXXXX");
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) {
    return FileError(errno, absl::StrCat("cannot make a temporary file of tokens in ", folder));
  }
  unlink(name.c_str());
  return fd;
}

}  // namespace

TokenStore::~TokenStore() {
  if (fd_ >= 0) close(fd_);
}

absl::Status TokenStore::Append(absl::Span<const int32_t> tokens) {
  held_.insert(held_.end(), tokens.begin(), tokens.end());
  return static_cast<int64_t>(held_.size()) > in_memory_ ? Spill() : absl::OkStatus();
}

absl::Status TokenStore::Spill() {
  const std::string folder = TemporaryFolder();
  if (fd_ < 0) {
    const absl::StatusOr<int> opened = OpenUnnamed(folder);
    if (!opened.ok()) return opened.status();
    fd_ = *opened;
  }
  const auto* const bytes = reinterpret_cast<const char*>(held_.data());
  const size_t size = held_.size() * sizeof(int32_t);
  if (const int error = WriteAllTo(fd_, {bytes, size}); error != 0) {
    return FileError(error, absl::StrCat("cannot write the tokens to a temporary file in ", folder,
                                         "; TMPDIR names another folder"));
  }
  written_ += static_cast<int64_t>(held_.size());
  held_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TokenSource>> TokenStore::Finish() {
  if (fd_ < 0) return std::make_unique<HeldSource>(std::exchange(held_, {}));
  if (absl::Status status = Spill(); !status.ok()) return status;
  return std::make_unique<SpilledSource>(std::exchange(fd_, -1), std::exchange(written_, 0));
}

}  // namespace sluice
