#include "models/files/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/files/positioned_file.h"
#include "models/files/safetensors_header.h"
#include "models/spec/bfloat16.h"
#include "models/spec/float16.h"
#include "models/spec/git_lfs.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kHalfBytes = 2;

absl::Span<uint8_t> BytesOf(void* data, int64_t bytes) {
  return {static_cast<uint8_t*>(data), static_cast<size_t>(bytes)};
}

// Elements that are converted together.
constexpr int64_t kPiece = int64_t{1} << 16;

// Reads `count` halves from `offset` on.
template <typename Convert>
absl::Status ReadHalves(const PositionedFile& file, int64_t offset, int64_t count, Convert convert,
                        float* out) {
  std::vector<uint16_t> halves(static_cast<size_t>(std::min(count, kPiece)));
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t size = std::min(kPiece, count - first);
    absl::Status status =
        file.ReadAt(offset + first * kHalfBytes, BytesOf(halves.data(), size * kHalfBytes));
    if (!status.ok()) return status;
    for (int64_t i = 0; i < size; ++i) out[first + i] = convert(halves[static_cast<size_t>(i)]);
  }
  return absl::OkStatus();
}

int64_t ElementsOf(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

class OneFile : public SafetensorsFile {
 public:
  OneFile(PositionedFile file, SafetensorsHeader header, int64_t data_begin, FileOpen open)
      : path_(file.path()),
        identity_(file.identity()),
        header_(std::move(header)),
        data_begin_(data_begin) {
    if (open == FileOpen::kAlways) file_.emplace(std::move(file));
    for (const TensorEntry& entry : header_.entries) by_name_[entry.name] = &entry;
  }

  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& entries() const override { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const override { return header_.metadata; }

  absl::Status Check(const std::string& name, const std::vector<int64_t>& shape) const override {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      return absl::NotFoundError(absl::StrCat(path(), " has no tensor '", name, "'"));
    }
    const TensorEntry& entry = *found->second;
    if (entry.shape != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          path(), ": tensor '", name, "' has shape [", absl::StrJoin(entry.shape, ", "),
          "], expected [", absl::StrJoin(shape, ", "), "]"));
    }
    if (IsReadable(entry)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path(), ": tensor '", name, "' is ", entry.dtype,
                                                   ", expected F32, F16 or BF16"));
  }

  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape, int64_t first,
                    int64_t count, float* out) const override {
    if (absl::Status status = Check(name, shape); !status.ok()) return status;
    if (count == 0) return absl::OkStatus();
    const TensorEntry& entry = *by_name_.at(name);
    if (file_) return ReadUnchanged(*file_, entry, first, count, out);
    const absl::StatusOr<PositionedFile> again = PositionedFile::Open(path_);
    if (!again.ok()) return again.status();
    if (again->identity() == identity_) return ReadUnchanged(*again, entry, first, count, out);
    return absl::DataLossError(
        absl::StrCat(path_, " was replaced or written to while it was read"));
  }

 private:
  static bool IsReadable(const TensorEntry& entry) {
    return entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16";
  }

  // What was written over meanwhile may have been read as a part of the old tensor and of a new
  // one.
  absl::Status ReadUnchanged(const PositionedFile& file, const TensorEntry& entry, int64_t first,
                             int64_t count, float* out) const {
    if (absl::Status status = ReadFrom(file, entry, first, count, out); !status.ok()) return status;
    const absl::Status unchanged = file.CheckUnchanged();
    return unchanged.ok() ? unchanged : absl::DataLossError(unchanged.message());
  }

  absl::Status ReadFrom(const PositionedFile& file, const TensorEntry& entry, int64_t first,
                        int64_t count, float* out) const {
    const int64_t bytes = entry.dtype == "F32" ? kFloatBytes : kHalfBytes;
    const int64_t offset = data_begin_ + static_cast<int64_t>(entry.begin) + first * bytes;
    if (entry.dtype == "F32") return file.ReadAt(offset, BytesOf(out, count * kFloatBytes));
    if (entry.dtype == "BF16")
      return ReadHalves(
          file, offset, count, [](uint16_t value) { return FromBFloat16(value); }, out);
    return ReadHalves(file, offset, count, FromFloat16, out);
  }

  std::string path_;
  FileIdentity identity_;
  std::optional<PositionedFile> file_;  // where it is always open
  SafetensorsHeader header_;
  int64_t data_begin_;
  absl::flat_hash_map<std::string, const TensorEntry*> by_name_;
};

// The length that the file says its header has.
absl::StatusOr<int64_t> HeaderLength(const PositionedFile& file) {
  const auto size = static_cast<uint64_t>(file.size());
  if (size < kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat(file.path(), ": has ", size,
                                            " bytes; a safetensors file has at least ",
                                            kSafetensorsLengthBytes));
  }
  uint64_t length = 0;
  absl::Status status = file.ReadAt(0, BytesOf(&length, kSafetensorsLengthBytes));
  if (!status.ok()) return status;
  if (const absl::string_view eight(reinterpret_cast<const char*>(&length), sizeof(length));
      absl::StartsWith(kLfsPointer, eight)) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), " ", kIsLfsPointer));
  }
  if (length > kSafetensorsMaxHeader) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": its header would have ", length, " bytes, more than the format's ",
        kSafetensorsMaxHeader, "; this is not a safetensors file"));
  }
  if (length > size - kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat(file.path(), ": truncated: ", size,
                                            " bytes, but its header alone has ", length));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

absl::Status SafetensorsFile::Read(const std::string& name, const std::vector<int64_t>& shape,
                                   float* out) const {
  return Read(name, shape, 0, ElementsOf(shape), out);
}

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path,
                                                                       FileOpen open) {
  absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<int64_t> length = HeaderLength(*file);
  if (!length.ok()) return length.status();
  constexpr auto kJsonBegin = static_cast<int64_t>(kSafetensorsLengthBytes);
  std::string json(static_cast<size_t>(*length), '\0');
  absl::Status status = file->ReadAt(kJsonBegin, BytesOf(json.data(), *length));
  if (!status.ok()) return status;
  const int64_t data_begin = kJsonBegin + *length;
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(json, static_cast<uint64_t>(file->size() - data_begin));
  if (!header.ok()) return InFile(path, header.status());
  return std::make_unique<OneFile>(*std::move(file), *std::move(header), data_begin, open);
}

}  // namespace sluice
