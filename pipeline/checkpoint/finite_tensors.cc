#include "pipeline/checkpoint/finite_tensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/data/mapped_file.h"
#include "pipeline/run/finite_state.h"

namespace sluice {
namespace {

// Values that are looked at together. They are copied, since a file need not have them where floats
// may be in memory.
constexpr size_t kPiece = size_t{1} << 14U;

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
