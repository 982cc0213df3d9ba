#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"
#include "models/files/positioned_file.h"

namespace sluice {
namespace {

constexpr int kByteValues = 256;
constexpr uint32_t kOffsetDomain = 2;  // of RandomBits
constexpr size_t kFingerprintBlocks = 64;
constexpr size_t kFingerprintBlock = size_t{1} << 20;

// Windows of seq + 1 bytes start `seq` bytes apart, so each byte except the first is a target once.
class TextDataset : public Dataset {
 public:
  TextDataset(PositionedFile file, int64_t seq, uint64_t seed)
      : file_(std::move(file)), seq_(seq), seed_(seed) {
    const int64_t size = file_.size();
    validation_bytes_ = size / kHeldOutFraction;
    train_bytes_ = size - validation_bytes_;
  }

  std::string description() const override {
    return absl::StrCat("text: ", GroupDigits(train_bytes_ + validation_bytes_),
                        " bytes, vocabulary ", kByteValues, ", last 10 % for validation");
  }

  // Training uses one window less than would fit, which leaves room for any offset below `seq`.
  int64_t samples(Split split) const override {
    return split == Split::kTrain ? (train_bytes_ - 1) / seq_ - 1 : (validation_bytes_ - 1) / seq_;
  }

  int classes() const override { return kByteValues; }
  int64_t input_size() const override { return seq_; }
  DType input_dtype() const override { return DType::kInt32; }

  void Fill(Split split, int64_t index, int64_t size, [[maybe_unused]] DType dtype,
            const SampleBuffers& out) const override {
    assert(dtype == DType::kInt32 && index >= 0 && size >= 0);
    int32_t* const tokens = static_cast<int32_t*>(out.input);
    std::vector<uint8_t> window(static_cast<size_t>(seq_) + 1);
    for (int64_t i = 0; i < size; ++i) {
      Read(WindowBegin(split, index * size + i), absl::MakeSpan(window));
      if (tokens != nullptr) std::copy_n(window.begin(), seq_, tokens + i * seq_);
      if (out.targets != nullptr) std::copy_n(window.begin() + 1, seq_, out.targets + i * seq_);
    }
    if (out.starts != nullptr) std::fill_n(out.starts, size * seq_, 0);
  }

  std::string fingerprint() const override {
    const auto size = static_cast<size_t>(file_.size());
    uint64_t hash = 0;
    if (size <= kFingerprintBlocks * kFingerprintBlock) {
      std::vector<uint8_t> all(size);
      Read(0, absl::MakeSpan(all));
      hash = XXH3_64bits(all.data(), size);
    } else {
      const size_t stride = (size - kFingerprintBlock) / (kFingerprintBlocks - 1);
      std::vector<uint8_t> block(kFingerprintBlock);
      for (size_t at = 0; at < kFingerprintBlocks; ++at) {
        Read(static_cast<int64_t>(at * stride), absl::MakeSpan(block));
        hash = XXH3_64bits_withSeed(block.data(), kFingerprintBlock, hash);
      }
    }
    return absl::StrFormat("text:%d:%016x", size, hash);
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
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

  // Writes zeros where reading fails; status() then reports the failure.
  void Read(int64_t offset, absl::Span<uint8_t> bytes) const {
    absl::Status status = file_.ReadAt(offset, bytes);
    if (status.ok()) return;
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    const std::lock_guard lock(mutex_);
    status_.Update(status);
  }

  const PositionedFile file_;  // not mapped: the file may shrink during training
  int64_t seq_;
  uint64_t seed_;
  int64_t train_bytes_ = 0;
  int64_t validation_bytes_ = 0;
  mutable std::mutex mutex_;
  mutable absl::Status status_;  // the first failure
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTextDataset(const std::string& path, int64_t seq,
                                                         uint64_t seed) {
  // Far above any context length, and far below the value at which 10 * (seq + 1) would overflow.
  constexpr int64_t kMaxSeq = int64_t{1} << 40;
  if (seq < 1 || seq > kMaxSeq) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence length ", seq, " for ", path, "; expected 1 to ", kMaxSeq));
  }
  absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  const int64_t size = file->size();
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
  return std::make_unique<TextDataset>(*std::move(file), seq, seed);
}

}  // namespace sluice
