#include "pipeline/checkpoint/files/finite_tensors.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Values that are read together.
constexpr int64_t kPiece = int64_t{1} << 18U;
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

absl::Status CheckTensor(const SafetensorsFile& file, const TensorEntry& entry) {
  const auto count = static_cast<int64_t>((entry.end - entry.begin) / sizeof(float));
  std::vector<float> piece(static_cast<size_t>(std::min(kPiece, count)));
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t size = std::min(kPiece, count - first);
    absl::Status status = file.Read(entry.name, entry.shape, first, size, piece.data());
    if (!status.ok()) return status;
    const int64_t found = FirstNotFinite(piece.data(), size);
    if (found == size) continue;
    return absl::DataLossError(absl::StrCat(file.path(), ": tensor '", entry.name, "' is ",
                                            piece[static_cast<size_t>(found)], " at element ",
                                            first + found, ", so no run can go on from it"));
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
  for (const TensorEntry& entry : file.entries()) {
    if (entry.dtype != "F32") continue;
    if (absl::Status status = CheckTensor(file, entry); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
