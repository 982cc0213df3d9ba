#include "models/files/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kAlignment = 8;
// The number that PyTorch allows; error messages print all of them.
constexpr size_t kMostDimensions = 64;

// Bits of one element; 0 for an unknown type. From the official implementation,
// safetensors/src/tensor.rs.
uint64_t BitsOf(absl::string_view dtype) {
  struct Type {
    absl::string_view name;
    uint64_t bits;
  };
  static constexpr Type kTypes[] = {{"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8},
                                    {"U8", 8},      {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
                                    {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},
                                    {"BF16", 16},   {"I32", 32},    {"U32", 32},    {"F32", 32},
                                    {"F64", 64},    {"I64", 64},    {"U64", 64},    {"C64", 64}};
  for (const Type& type : kTypes) {
    if (type.name == dtype) return type.bits;
  }
  return 0;
}

absl::Status BadTensor(const std::string& name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': ", what));
}

// Whether it is an array of non-negative integers that fit int64_t.
bool IsIndexArray(const Json& json) {
  return json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& value) {
           return value.is_number_unsigned() &&
                  value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
         });
}

// The bytes of a tensor; false where they overflow or are not a whole number.
bool BytesOf(const std::vector<int64_t>& shape, uint64_t bits, uint64_t& bytes) {
  uint64_t total = bits;
  for (const int64_t dim : shape) {
    const uint64_t factor = static_cast<uint64_t>(dim);
    if (factor != 0 && total > std::numeric_limits<uint64_t>::max() / factor) return false;
    total *= factor;
  }
  bytes = total / 8;
  return total % 8 == 0;
}

absl::StatusOr<TensorEntry> ParseEntry(const std::string& name, const Json& json) {
  if (!json.is_object()) return BadTensor(name, "expected an object");
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string()) return BadTensor(name, "expected a dtype");
  if (shape == json.end() || !IsIndexArray(*shape) || shape->size() > kMostDimensions) {
    return BadTensor(name,
                     absl::StrCat("expected a shape of at most ", kMostDimensions, " dimensions"));
  }
  if (offsets == json.end() || !IsIndexArray(*offsets) || offsets->size() != 2) {
    return BadTensor(name, "expected data_offsets [begin, end]");
  }
  TensorEntry entry = {name, dtype->get<std::string>(), shape->get<std::vector<int64_t>>(),
                       offsets->at(0).get<uint64_t>(), offsets->at(1).get<uint64_t>()};
  const uint64_t bits = BitsOf(entry.dtype);
  if (bits == 0) return BadTensor(name, absl::StrCat("unknown dtype '", entry.dtype, "'"));
  uint64_t bytes = 0;
  if (!BytesOf(entry.shape, bits, bytes) || entry.end < entry.begin ||
      entry.end - entry.begin != bytes) {
    return BadTensor(
        name, absl::StrCat("data_offsets [", entry.begin, ", ", entry.end, "] do not fit ",
                           entry.dtype, " of shape [", absl::StrJoin(entry.shape, ", "), "]"));
  }
  return entry;
}

absl::Status ParseMetadata(const Json& json, std::map<std::string, std::string>& metadata) {
  if (!json.is_object()) return absl::InvalidArgumentError("__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("__metadata__ '", key, "' is not a string"));
    }
    metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

// Each tensor begins where the one before ended, and the last one ends with the file.
absl::Status CheckContiguous(const std::vector<TensorEntry>& entries, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != end) {
      return BadTensor(entry.name, absl::StrCat(entry.begin > end ? "leaves a gap" : "overlaps",
                                                ": begins at ", entry.begin, ", expected ", end));
    }
    end = entry.end;
  }
  if (end == data_bytes) return absl::OkStatus();
  const std::string message =
      absl::StrCat("holds ", data_bytes, " bytes of data, its header expects ", end);
  return end > data_bytes ? absl::DataLossError(absl::StrCat("truncated: ", message))
                          : absl::InvalidArgumentError(message);
}

}  // namespace

absl::StatusOr<std::string> FormatSafetensorsHead(
    const std::vector<TensorShape>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string> names = {kMetadataKey};
  uint64_t begin = 0;
  for (const TensorShape& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return BadTensor(tensor.name, "its name is given twice or reserved");
    }
    uint64_t bytes = 0;
    const bool negative =
        std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t dim) { return dim < 0; });
    if (negative || !BytesOf(tensor.shape, BitsOf(tensor.dtype), bytes)) {
      return BadTensor(tensor.name,
                       absl::StrCat("bad shape [", absl::StrJoin(tensor.shape, ", "), "]"));
    }
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + bytes}}};
    begin += bytes;
  }
  try {
    std::string text = header.dump();
    text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
    const uint64_t length = text.size();
    return absl::StrCat(
        absl::string_view(reinterpret_cast<const char*>(&length), kSafetensorsLengthBytes), text);
  } catch (const nlohmann::ordered_json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("a name is not UTF-8: ", error.what()));
  }
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes) {
  if (json.empty() || json[0] != '{') {
    return absl::InvalidArgumentError("its header does not begin with '{'");
  }
  const absl::StatusOr<Json> parsed = ParseJson(json, {.bytes = kSafetensorsMaxHeader});
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("its header: ", std::string(parsed.status().message())));
  }
  SafetensorsHeader header;
  for (const auto& [name, value] : parsed->items()) {
    if (name == kMetadataKey) {
      absl::Status status = ParseMetadata(value, header.metadata);
      if (!status.ok()) return status;
      continue;
    }
    absl::StatusOr<TensorEntry> entry = ParseEntry(name, value);
    if (!entry.ok()) return entry.status();
    header.entries.push_back(*std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  const absl::Status status = CheckContiguous(header.entries, data_bytes);
  if (!status.ok()) return status;
  return header;
}

}  // namespace sluice
