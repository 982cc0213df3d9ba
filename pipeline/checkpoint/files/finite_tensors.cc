#include "pipeline/checkpoint/files/finite_tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/files/mapped_file.h"

namespace sluice {
namespace {

// Values that are looked at together. They are copied, since a file need not have them where floats
// may be in memory.
constexpr size_t kPiece = size_t{1} << 14U;
// Values that are looked at together, few enough for the nearest cache.
constexpr int64_t kBlock = 4096;
// Of NaN and infinities all bits of the exponent are set. Without a branch, so that a compiler uses
// vectors.
bool AllFinite(const float* values, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
  }
  return bad == 0;
}

absl::Status CheckTensor(const TensorEntry& entry, const uint8_t* data, const std::string& path) {
  std::vector<float> piece(kPiece);
  const size_t count = (entry.end - entry.begin) / sizeof(float);
  for (size_t first = 0; first < count; first += kPiece) {
    const size_t size = std::min(kPiece, count - first);
    std::memcpy(piece.data(), data + entry.begin + first * sizeof(float), size * sizeof(float));
    const auto found =
        static_cast<size_t>(FirstNotFinite(piece.data(), static_cast<int64_t>(size)));
    if (found == size) continue;
    return absl::DataLossError(absl::StrCat(path, ": tensor '", entry.name, "' is ", piece[found],
                                            " at element ", first + found,
                                            ", so no run can go on from it"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t FirstNotFinite(const float* values, int64_t count) {
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t size = std::min(kBlock, count - first);
    if (AllFinite(values + first, size)) continue;
    while (AllFinite(values + first, 1)) ++first;
    return first;
  }
  return count;
}

absl::Status CheckFiniteTensors(const SafetensorsFile& file) {
  if (file.entries().empty()) return absl::OkStatus();
  const absl::StatusOr<MappedFile> mapped = MappedFile::Open(file.path());
  if (!mapped.ok()) return mapped.status();
  // The data are the end of the file, without gaps.
  const absl::Span<const uint8_t> bytes = mapped->bytes();
  const uint8_t* data = bytes.data() + (bytes.size() - file.entries().back().end);
  for (const TensorEntry& entry : file.entries()) {
    if (entry.dtype != "F32") continue;
    if (absl::Status status = CheckTensor(entry, data, file.path()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
