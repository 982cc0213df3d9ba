#include "models/files/safetensors.h"

#include <bit>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/files/mapped_file.h"
#include "models/files/safetensors_header.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

float FromBFloat16(uint16_t value) { return FromBits(uint32_t{value} << 16); }

// IEEE 754 binary16. Exact: every half is a float.
float FromFloat16(uint16_t value) {
  const uint32_t sign = uint32_t{value & 0x8000u} << 16;
  const uint32_t exponent = (value >> 10) & 0x1f;
  const uint32_t fraction = value & 0x3ff;
  if (exponent == 0x1f) return FromBits(sign | 0x7f800000 | (fraction << 13));  // infinity, NaN
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormal, zero
    return sign != 0 ? -magnitude : magnitude;
  }
  return FromBits(sign | ((exponent + 112) << 23) | (fraction << 13));  // bias 15 -> 127
}

template <typename Convert>
void CopyHalves(const uint8_t* data, size_t count, Convert convert, float* out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, data + i * sizeof(half), sizeof(half));
    out[i] = convert(half);
  }
}

class MappedSafetensors : public SafetensorsFile {
 public:
  MappedSafetensors(MappedFile file, SafetensorsHeader header, size_t data_begin)
      : file_(std::move(file)), header_(std::move(header)), data_begin_(data_begin) {
    for (const TensorEntry& entry : header_.entries) by_name_[entry.name] = &entry;
  }

  const std::string& path() const override { return file_.path(); }
  const std::vector<TensorEntry>& entries() const override { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const override { return header_.metadata; }

  absl::Status Read(const std::string& name, const std::vector<int64_t>& shape,
                    float* out) const override {
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
    const uint8_t* const data = file_.bytes().data() + data_begin_ + entry.begin;
    const size_t bytes = entry.end - entry.begin;
    if (entry.dtype == "F32") {
      if (bytes > 0) std::memcpy(out, data, bytes);
    } else if (entry.dtype == "BF16") {
      CopyHalves(data, bytes / 2, FromBFloat16, out);
    } else if (entry.dtype == "F16") {
      CopyHalves(data, bytes / 2, FromFloat16, out);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(path(), ": tensor '", name, "' is ",
                                                     entry.dtype, ", expected F32, F16 or BF16"));
    }
    return absl::OkStatus();
  }

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  size_t data_begin_;
  absl::flat_hash_map<std::string, const TensorEntry*> by_name_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::Span<const uint8_t> bytes = file->bytes();
  uint64_t length = 0;
  if (bytes.size() < kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat(path, ": has ", bytes.size(),
                                            " bytes; a safetensors file has at least ",
                                            kSafetensorsLengthBytes));
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kSafetensorsMaxHeader) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its header would have ", length, " bytes, more than the format's ",
                     kSafetensorsMaxHeader, "; this is not a safetensors file"));
  }
  if (length > bytes.size() - kSafetensorsLengthBytes) {
    return absl::DataLossError(absl::StrCat(path, ": truncated: ", bytes.size(),
                                            " bytes, but its header alone has ", length));
  }
  const size_t data_begin = kSafetensorsLengthBytes + length;
  const absl::string_view json(
      reinterpret_cast<const char*>(bytes.data()) + kSafetensorsLengthBytes, length);
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(json, bytes.size() - data_begin);
  if (!header.ok()) return InFile(path, header.status());
  return std::make_unique<MappedSafetensors>(*std::move(file), *std::move(header), data_begin);
}

}  // namespace sluice
