#include "models/data/corpora/token_source.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kChecksumBlocks = 64;
constexpr size_t kChecksumBlock = size_t{1} << 20;

template <typename T>
void Widen(const uint8_t* bytes, int64_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    out[i] = static_cast<int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): numbers
  }
}

void Widen(TokenWidth width, const uint8_t* bytes, int64_t* out, size_t count) {
  switch (width) {
    case TokenWidth::kUint8:
      return Widen<uint8_t>(bytes, out, count);
    case TokenWidth::kInt8:
      return Widen<int8_t>(bytes, out, count);
    case TokenWidth::kUint16:
      return Widen<uint16_t>(bytes, out, count);
    case TokenWidth::kInt16:
      return Widen<int16_t>(bytes, out, count);
    case TokenWidth::kUint32:
      return Widen<uint32_t>(bytes, out, count);
    case TokenWidth::kInt32:
      return Widen<int32_t>(bytes, out, count);
    case TokenWidth::kInt64:
      return Widen<int64_t>(bytes, out, count);
  }
}

class FileSource : public TokenSource {
 public:
  FileSource(PositionedFile file, const TokenLayout& layout, int32_t vocabulary)
      : file_(std::move(file)), layout_(layout), vocabulary_(vocabulary) {}

  int64_t size() const override { return layout_.tokens; }

  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    constexpr size_t kPiece = 4096;
    const auto each = static_cast<size_t>(BytesOf(layout_.width));
    std::vector<uint8_t> bytes(out.size() * each);
    const int64_t offset = layout_.offset + begin * static_cast<int64_t>(each);
    if (absl::Status status = file_.ReadAt(offset, absl::MakeSpan(bytes)); !status.ok()) {
      return status;
    }
    int64_t wide[kPiece];
    for (size_t done = 0; done < out.size(); done += kPiece) {
      const size_t count = std::min(kPiece, out.size() - done);
      Widen(layout_.width, bytes.data() + done * each, wide, count);
      for (size_t i = 0; i < count; ++i) {
        if (wide[i] < 0 || wide[i] >= vocabulary_) {
          return Outside(begin + static_cast<int64_t>(done + i), wide[i]);
        }
        out[done + i] = static_cast<int32_t>(wide[i]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged() const override { return file_.CheckUnchanged(); }

  absl::StatusOr<uint64_t> Checksum() const override {
    const auto size = static_cast<size_t>(layout_.tokens * BytesOf(layout_.width));
    if (size <= kChecksumBlocks * kChecksumBlock) {
      std::vector<uint8_t> all(size);
      absl::Status status = file_.ReadAt(layout_.offset, absl::MakeSpan(all));
      if (!status.ok()) return status;
      return XXH3_64bits(all.data(), size);
    }
    uint64_t hash = 0;
    const size_t stride = (size - kChecksumBlock) / (kChecksumBlocks - 1);
    std::vector<uint8_t> block(kChecksumBlock);
    for (size_t at = 0; at < kChecksumBlocks; ++at) {
      const int64_t begin = layout_.offset + static_cast<int64_t>(at * stride);
      if (absl::Status status = file_.ReadAt(begin, absl::MakeSpan(block)); !status.ok()) {
        return status;
      }
      hash = XXH3_64bits_withSeed(block.data(), kChecksumBlock, hash);
    }
    return hash;
  }

 private:
  absl::Status Outside(int64_t at, int64_t token) const {
    return absl::InvalidArgumentError(absl::StrCat(
        file_.path(), ": token ", at, ", at byte ", layout_.offset + at * BytesOf(layout_.width),
        ", is ", token, "; expected 0 to ", vocabulary_ - 1, ", as the vocabulary has ",
        vocabulary_, " words; was the file made with another tokenizer, or in another format?"));
  }

  const PositionedFile file_;  // not mapped: the file may shrink during training
  const TokenLayout layout_;
  const int32_t vocabulary_;
};

class JoinedSource : public TokenSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<TokenSource>> parts)
      : parts_(std::move(parts)) {
    ends_.reserve(parts_.size());
    for (const std::unique_ptr<TokenSource>& part : parts_) {
      ends_.push_back(size() + part->size());
    }
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }

  absl::Status Read(int64_t begin, absl::Span<int32_t> out) const override {
    auto part =
        static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    while (!out.empty()) {
      const auto left = static_cast<size_t>(ends_[part] - begin);
      const absl::Span<int32_t> piece = out.subspan(0, left);
      const int64_t in_part = begin - (ends_[part] - parts_[part]->size());
      if (absl::Status status = parts_[part]->Read(in_part, piece); !status.ok()) return status;
      begin += static_cast<int64_t>(piece.size());
      out.remove_prefix(piece.size());
      ++part;
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged() const override {
    absl::Status status;
    for (const std::unique_ptr<TokenSource>& part : parts_) status.Update(part->CheckUnchanged());
    return status;
  }

  absl::StatusOr<uint64_t> Checksum() const override {
    uint64_t hash = 0;
    for (const std::unique_ptr<TokenSource>& part : parts_) {
      absl::StatusOr<uint64_t> of_part = part->Checksum();
      if (!of_part.ok()) return of_part;
      const uint64_t seen[] = {static_cast<uint64_t>(part->size()), *of_part};
      hash = XXH3_64bits_withSeed(seen, sizeof(seen), hash);
    }
    return hash;
  }

 private:
  const std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<int64_t> ends_;  // [part] tokens of it and of those before it
};

}  // namespace

int64_t BytesOf(TokenWidth width) {
  switch (width) {
    case TokenWidth::kUint8:
    case TokenWidth::kInt8:
      return 1;
    case TokenWidth::kUint16:
    case TokenWidth::kInt16:
      return 2;
    case TokenWidth::kUint32:
    case TokenWidth::kInt32:
      return 4;
    case TokenWidth::kInt64:
      return 8;
  }
  return 0;
}

std::unique_ptr<TokenSource> MakeFileSource(PositionedFile file, const TokenLayout& layout,
                                            int32_t vocabulary) {
  return std::make_unique<FileSource>(std::move(file), layout, vocabulary);
}

std::unique_ptr<TokenSource> Concatenate(std::vector<std::unique_ptr<TokenSource>> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<JoinedSource>(std::move(parts));
}

}  // namespace sluice
