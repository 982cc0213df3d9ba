#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/file_bytes.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"

namespace sluice {
namespace {

constexpr int kByteValues = 256;
constexpr uint32_t kOffsetDomain = 2;  // of RandomBits
constexpr size_t kFingerprintBlocks = 64;
constexpr size_t kFingerprintBlock = size_t{1} << 20;

// Windows of seq + 1 bytes lie `seq` apart, so each byte but the first is a target once.
class TextDataset : public Dataset {
 public:
  TextDataset(std::vector<uint8_t> bytes, int64_t seq, uint64_t seed)
      : bytes_(std::move(bytes)), seq_(seq), seed_(seed) {
    const int64_t size = static_cast<int64_t>(bytes_.size());
    validation_bytes_ = size / kHeldOutFraction;
    train_bytes_ = size - validation_bytes_;
  }

  std::string description() const override {
    return absl::StrCat("text: ", GroupDigits(train_bytes_ + validation_bytes_),
                        " bytes, vocabulary ", kByteValues, ", last 10 % for validation");
  }

  // One window less than fit for training, which leaves room for any offset below `seq`.
  int64_t samples(Split split) const override {
    return split == Split::kTrain ? (train_bytes_ - 1) / seq_ - 1 : (validation_bytes_ - 1) / seq_;
  }

  int classes() const override { return kByteValues; }
  int64_t input_size() const override { return seq_; }
  DType input_dtype() const override { return DType::kInt32; }

  void Fill(Split split, int64_t index, int64_t size, [[maybe_unused]] DType dtype, void* input,
            int32_t* targets) const override {
    assert(dtype == DType::kInt32 && index >= 0 && size >= 0);
    int32_t* const tokens = static_cast<int32_t*>(input);
    for (int64_t i = 0; i < size; ++i) {
      const uint8_t* const window = bytes_.data() + WindowBegin(split, index * size + i);
      if (tokens != nullptr) std::copy_n(window, seq_, tokens + i * seq_);
      if (targets != nullptr) std::copy_n(window + 1, seq_, targets + i * seq_);
    }
  }

  std::string fingerprint() const override {
    const absl::Span<const uint8_t> bytes = bytes_;
    uint64_t hash = 0;
    if (bytes.size() <= kFingerprintBlocks * kFingerprintBlock) {
      hash = XXH3_64bits(bytes.data(), bytes.size());
    } else {
      const size_t stride = (bytes.size() - kFingerprintBlock) / (kFingerprintBlocks - 1);
      for (size_t block = 0; block < kFingerprintBlocks; ++block) {
        hash = XXH3_64bits_withSeed(bytes.data() + block * stride, kFingerprintBlock, hash);
      }
    }
    return absl::StrFormat("text:%d:%016x", bytes.size(), hash);
  }

 private:
  int64_t WindowBegin(Split split, int64_t number) const {
    const Position at = PositionOf(number, samples(split));
    if (split == Split::kValidation) return train_bytes_ + at.sample * seq_;
    const uint64_t epoch = static_cast<uint64_t>(at.epoch);
    const int64_t offset = static_cast<int64_t>(RandomBits(seed_, epoch, kOffsetDomain, 0) %
                                                static_cast<uint64_t>(seq_));
    return offset + Permutation(samples(split), seed_, epoch)(at.sample) * seq_;
  }

  const std::vector<uint8_t> bytes_;  // not mapped: the file may shrink while we train
  int64_t seq_;
  uint64_t seed_;
  int64_t train_bytes_ = 0;
  int64_t validation_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTextDataset(const std::string& path, int64_t seq,
                                                         uint64_t seed) {
  // Far above any context length, and far from where 10 * (seq + 1) would overflow.
  constexpr int64_t kMaxSeq = int64_t{1} << 40;
  if (seq < 1 || seq > kMaxSeq) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence length ", seq, " for ", path, "; expected 1 to ", kMaxSeq));
  }
  absl::StatusOr<std::vector<uint8_t>> bytes = ReadFileBytes(path);
  if (!bytes.ok()) return bytes.status();
  const int64_t size = static_cast<int64_t>(bytes->size());
  const int64_t window = seq + 1;
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat(path, " is empty; expected text"));
  if (size < window) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", size, " bytes, less than one window of ", window, " (sequence length ", seq,
        " and the byte that follows); give a longer text or a shorter sequence"));
  }
  const int64_t needed = window * kHeldOutFraction;
  if (size < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", size,
                     " bytes; its last 10 %, held out for validation, must hold one window of ",
                     window, " (sequence length ", seq, "), so at least ", needed,
                     " bytes are needed; give a longer text or a shorter sequence"));
  }
  return std::make_unique<TextDataset>(*std::move(bytes), seq, seed);
}

}  // namespace sluice
