#include "models/data/images/idx.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

constexpr uint32_t kUnsignedByte = 0x08;
constexpr size_t kWord = 4;  // bytes of the magic and of each dimension
constexpr size_t kChunk = size_t{1} << 20;

// Reads with zlib, which passes files through that are not compressed by gzip.
class GzReader {
 public:
  explicit GzReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {}
  ~GzReader() {
    if (file_ != nullptr) gzclose(file_);
  }
  GzReader(const GzReader&) = delete;
  GzReader& operator=(const GzReader&) = delete;

  bool is_open() const { return file_ != nullptr; }

  // Up to `size` bytes; fewer only at the end of the file. DataLoss when the gzip stream is damaged
  // or cut off.
  absl::StatusOr<size_t> Read(uint8_t* out, size_t size) {
    size_t done = 0;
    while (done < size) {
      const unsigned want = static_cast<unsigned>(std::min(size - done, kChunk));
      const int got = gzread(file_, out + done, want);
      int code = Z_OK;
      const char* message = gzerror(file_, &code);
      if (got < 0 || code != Z_OK) return Damaged(code, message);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  absl::Status Damaged(int code, const char* message) const {
    if (code == Z_BUF_ERROR) {
      return absl::DataLossError(
          absl::StrCat(path_, ": the gzip stream ends early; the file is truncated"));
    }
    return absl::DataLossError(absl::StrCat(path_, ": cannot be read: ", message));
  }

  std::string path_;
  gzFile file_;
};

uint32_t BigEndian32(const uint8_t* bytes) {
  return (uint32_t{bytes[0]} << 24) | (uint32_t{bytes[1]} << 16) | (uint32_t{bytes[2]} << 8) |
         uint32_t{bytes[3]};
}

absl::Status CheckRegularFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a file; expected IDX data"));
  }
  if (info.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is empty; expected IDX data"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ReadHeader(const std::string& path, int dims,
                                                GzReader& reader) {
  std::array<uint8_t, kWord*(1 + size_t{kIdxImageDims})> header = {};
  const size_t size = kWord * (1 + static_cast<size_t>(dims));
  const absl::StatusOr<size_t> got = reader.Read(header.data(), size);
  if (!got.ok()) return got.status();
  const uint32_t expected = (kUnsignedByte << 8) | static_cast<uint32_t>(dims);
  const uint32_t magic = BigEndian32(header.data());
  if (*got >= kWord && magic != expected) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: starts with 0x%08x; expected the IDX magic 0x%08x (unsigned bytes, %d dimension%s). "
        "If this is compressed text, unpack it first",
        path, magic, expected, dims, dims == 1 ? "" : "s"));
  }
  if (*got < size) {
    return absl::DataLossError(absl::StrCat(path, ": truncated in its header: ", *got,
                                            " bytes, expected at least ", size));
  }
  std::vector<int64_t> shape(static_cast<size_t>(dims));
  for (size_t i = 0; i < shape.size(); ++i) {
    shape[i] = BigEndian32(header.data() + kWord * (i + 1));
  }
  return shape;
}

// Elements of `shape`; an error where one is 0 or the product overflows.
absl::StatusOr<int64_t> CheckedCount(const std::string& path, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    if (dim == 0 || count > std::numeric_limits<int64_t>::max() / dim) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": its header gives dimensions ", absl::StrJoin(shape, " x "),
                       dim == 0 ? "; expected at least 1 each" : "; too many elements"));
    }
    count *= dim;
  }
  return count;
}

}  // namespace

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, int dims) {
  if (absl::Status status = CheckRegularFile(path); !status.ok()) return status;
  GzReader reader(path);
  if (!reader.is_open()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  IdxArray array;
  absl::StatusOr<std::vector<int64_t>> shape = ReadHeader(path, dims, reader);
  if (!shape.ok()) return shape.status();
  array.dims = *std::move(shape);
  const absl::StatusOr<int64_t> count = CheckedCount(path, array.dims);
  if (!count.ok()) return count.status();

  // Asks for one byte more than expected: it must not exist, and asking makes zlib check the end of
  // the stream.
  const size_t expected = static_cast<size_t>(*count);
  while (array.values.size() <= expected) {
    const size_t done = array.values.size();
    const size_t want = std::min(expected + 1 - done, kChunk);
    array.values.resize(done + want);
    const absl::StatusOr<size_t> got = reader.Read(array.values.data() + done, want);
    if (!got.ok()) return got.status();
    array.values.resize(done + *got);
    if (*got < want) break;
  }
  if (array.values.size() != expected) {
    const bool is_short = array.values.size() < expected;
    return absl::DataLossError(absl::StrCat(
        path, is_short ? ": truncated: " : ": longer than its header says: ",
        is_short ? absl::StrCat(array.values.size()) : absl::StrCat("more than ", expected),
        " bytes of data, expected ", absl::StrJoin(array.dims, " x "), " = ", expected));
  }
  return array;
}

bool LooksLikeIdx(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return false;
  std::array<uint8_t, 4> start = {};
  const size_t got = std::fread(start.data(), 1, start.size(), file.get());
  const bool is_gzip = got >= 2 && start[0] == 0x1f && start[1] == 0x8b;
  const bool is_idx =
      got == 4 && start[0] == 0 && start[1] == 0 && start[2] == kUnsignedByte && start[3] <= 4;
  return is_gzip || is_idx;
}

}  // namespace sluice
