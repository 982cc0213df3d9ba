#include "models/data/corpora/megatron_index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "models/files/positioned_file.h"

namespace sluice {
namespace {

constexpr absl::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr int64_t kSequenceBytes = 4 + 8;  // its size and its pointer

struct Header {
  TokenWidth width = TokenWidth::kUint16;
  int64_t sequences = 0;
  int64_t boundaries = 0;
};

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

absl::StatusOr<TokenWidth> WidthOf(const std::string& path, int code) {
  switch (code) {
    case 1:
      return TokenWidth::kUint8;
    case 2:
      return TokenWidth::kInt8;
    case 3:
      return TokenWidth::kInt16;
    case 4:
      return TokenWidth::kInt32;
    case 5:
      return TokenWidth::kInt64;
    case 8:
      return TokenWidth::kUint16;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the code of the type is ", code,
                       "; expected 1 (uint8), 2 (int8), 3 (int16), 4 (int32), 5 (int64) or 8 "
                       "(uint16), which tokens can have"));
  }
}

absl::StatusOr<Header> ReadHeader(const PositionedFile& file) {
  const std::string& path = file.path();
  if (file.size() < kHeaderBytes) {
    return absl::DataLossError(absl::StrCat(path, " has ", file.size(),
                                            " bytes; expected at least the ", kHeaderBytes,
                                            " of the header of Megatron's .idx"));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(kHeaderBytes));
  if (absl::Status status = file.ReadAt(0, absl::MakeSpan(bytes)); !status.ok()) return status;
  const absl::string_view magic(reinterpret_cast<const char*>(bytes.data()), kMagic.size());
  if (magic != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": begins with '", absl::CHexEscape(magic),
                                                   "'; expected '", absl::CHexEscape(kMagic),
                                                   "', Megatron's"));
  }
  const auto version = Load<uint64_t>(bytes.data() + 9);
  if (version != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the version is ", version, "; expected 1"));
  }
  const absl::StatusOr<TokenWidth> width = WidthOf(path, bytes[17]);
  if (!width.ok()) return width.status();
  const auto sequences = Load<uint64_t>(bytes.data() + 18);
  const auto boundaries = Load<uint64_t>(bytes.data() + 26);
  const auto most = static_cast<uint64_t>(file.size());
  if (sequences > most / kSequenceBytes || boundaries > most / 8 ||
      static_cast<uint64_t>(kHeaderBytes) + sequences * kSequenceBytes + boundaries * 8 > most) {
    return absl::DataLossError(absl::StrCat(path, " has ", file.size(), " bytes, too few for the ",
                                            sequences, " sequences and ", boundaries,
                                            " boundaries of documents that its header says"));
  }
  return Header{*width, static_cast<int64_t>(sequences), static_cast<int64_t>(boundaries)};
}

// Reads whole numbers one after another through a buffer.
template <typename T>
class Numbers {
 public:
  Numbers(const PositionedFile& file, int64_t offset, int64_t count)
      : file_(file), offset_(offset), left_(count) {}
  absl::StatusOr<T> Next() {
    if (at_ == buffer_.size()) {
      buffer_.resize(static_cast<size_t>(std::min<int64_t>(left_, kBuffered)));
      absl::Status status = file_.ReadAt(
          offset_,
          absl::MakeSpan(reinterpret_cast<uint8_t*>(buffer_.data()), buffer_.size() * sizeof(T)));
      if (!status.ok()) return status;
      offset_ += static_cast<int64_t>(buffer_.size() * sizeof(T));
      left_ -= static_cast<int64_t>(buffer_.size());
      at_ = 0;
    }
    return buffer_[at_++];
  }

 private:
  static constexpr int64_t kBuffered = 1 << 16;
  const PositionedFile& file_;
  int64_t offset_;
  int64_t left_;
  std::vector<T> buffer_;
  size_t at_ = 0;
};

// Where each sequence begins, in tokens, and at last where the last one ends.
absl::StatusOr<std::vector<int64_t>> ReadSequences(const PositionedFile& file,
                                                   const Header& header) {
  const int64_t each = BytesOf(header.width);
  Numbers<int32_t> sizes(file, kHeaderBytes, header.sequences);
  Numbers<int64_t> pointers(file, kHeaderBytes + header.sequences * 4, header.sequences);
  std::vector<int64_t> begins = {0};
  begins.reserve(static_cast<size_t>(header.sequences) + 1);
  for (int64_t i = 0; i < header.sequences; ++i) {
    const absl::StatusOr<int32_t> size = sizes.Next();
    if (!size.ok()) return size.status();
    const absl::StatusOr<int64_t> pointer = pointers.Next();
    if (!pointer.ok()) return pointer.status();
    if (*size < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": sequence ", i, " has a size of ", *size, "; expected at least 0"));
    }
    if (*pointer != begins.back() * each) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": sequence ", i, " begins at byte ", *pointer, "; expected ",
          begins.back() * each, ", right after the one before it, as Megatron's tools write it"));
    }
    begins.push_back(begins.back() + *size);
  }
  return begins;
}

absl::StatusOr<std::vector<int64_t>> ReadDocuments(const PositionedFile& file, const Header& header,
                                                   const std::vector<int64_t>& begins) {
  if (header.boundaries == 0 && begins.back() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": has ", header.sequences,
                     " sequences and no boundaries of documents; expected at least the first, 0"));
  }
  Numbers<int64_t> firsts(file, kHeaderBytes + header.sequences * kSequenceBytes,
                          header.boundaries);
  std::vector<int64_t> documents;
  documents.reserve(static_cast<size_t>(header.boundaries) + 1);
  int64_t last = 0;
  for (int64_t i = 0; i < header.boundaries; ++i) {
    const absl::StatusOr<int64_t> first = firsts.Next();
    if (!first.ok()) return first.status();
    if (*first < last || *first > header.sequences || (i == 0 && *first != 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": document ", i, " begins at sequence ", *first, "; expected ",
                       i == 0 ? "0" : absl::StrCat(last, " to ", header.sequences)));
    }
    last = *first;
    documents.push_back(begins[static_cast<size_t>(last)]);
  }
  if (documents.empty() || documents.back() != begins.back()) documents.push_back(begins.back());
  return documents;
}

}  // namespace

absl::StatusOr<MegatronIndex> ReadMegatronIndex(const std::string& path) {
  const absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<Header> header = ReadHeader(*file);
  if (!header.ok()) return header.status();
  const absl::StatusOr<std::vector<int64_t>> begins = ReadSequences(*file, *header);
  if (!begins.ok()) return begins.status();
  absl::StatusOr<std::vector<int64_t>> documents = ReadDocuments(*file, *header, *begins);
  if (!documents.ok()) return documents.status();
  return MegatronIndex{header->width, begins->back(), *std::move(documents)};
}

}  // namespace sluice
