#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/corpora/read_status.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"

namespace sluice {
namespace {

constexpr uint32_t kOffsetDomain = 2;  // of RandomBits

// Some tokens of a source that lie one after another.
struct TokenRange {
  const TokenSource* source = nullptr;
  int64_t begin = 0;
  int64_t tokens = 0;
};

// Windows of seq + 1 tokens start `seq` tokens apart, so each token except the first is a target
// once.
class WindowDataset : public Dataset {
 public:
  WindowDataset(WindowSources sources, const DataRequest& request)
      : sources_(std::move(sources)),
        validation_share_(sources_.validation == nullptr ? request.validation.share : 0),
        seq_(request.seq),
        seed_(request.seed) {
    const int64_t all = sources_.train->size();
    const int64_t held_out = HeldOut(all, validation_share_);
    train_ = {sources_.train.get(), 0, all - held_out};
    validation_ = {sources_.train.get(), all - held_out, held_out};
    if (sources_.validation != nullptr) {
      validation_ = {sources_.validation.get(), 0, sources_.validation->size()};
    }
  }

  std::string description() const override {
    return absl::StrCat(sources_.kind, ": ", GroupDigits(sources_.train->size()), " ",
                        sources_.unit, ", vocabulary ", GroupDigits(sources_.vocabulary), ", ",
                        HeldOutText());
  }

  int64_t samples(Split split) const override {
    if (split == Split::kTrain) return TrainWindows();
    return validation_.tokens == 0 ? 0 : (validation_.tokens - 1) / seq_;
  }

  int classes() const override { return sources_.vocabulary; }
  int64_t input_size() const override { return seq_; }
  DType input_dtype() const override { return DType::kInt32; }

  void Fill(Split split, int64_t index, int64_t size, [[maybe_unused]] DType dtype,
            const SampleBuffers& out) const override {
    assert(dtype == DType::kInt32 && index >= 0 && size >= 0);
    int32_t* const tokens = static_cast<int32_t*>(out.input);
    const TokenRange& range = split == Split::kTrain ? train_ : validation_;
    std::vector<int32_t> window(static_cast<size_t>(seq_) + 1);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t begin = range.begin + WindowBegin(split, index * size + i);
      status_.Read(*range.source, begin, absl::MakeSpan(window));
      if (tokens != nullptr) std::copy_n(window.begin(), seq_, tokens + i * seq_);
      if (out.targets != nullptr) std::copy_n(window.begin() + 1, seq_, out.targets + i * seq_);
    }
    if (out.starts != nullptr) std::fill_n(out.starts, size * seq_, 0);
  }

  absl::Status CheckUnchanged() const override {
    absl::Status status = sources_.train->CheckUnchanged();
    if (sources_.validation != nullptr) status.Update(sources_.validation->CheckUnchanged());
    return status;
  }

  absl::Status status() const override { return status_.Get(); }
  std::vector<std::string> notes() const override { return sources_.notes; }

 protected:
  std::string MakeFingerprint() const override {
    // "text" says that the tokens are bytes to whoever samples from a checkpoint.
    const bool words = sources_.kind == "text" && sources_.unit != "bytes";
    std::string text = absl::StrFormat("%s:%d:%016x", words ? "words" : sources_.kind,
                                       sources_.train->size(), status_.Checksum(*sources_.train));
    if (sources_.validation != nullptr) {
      absl::StrAppendFormat(&text, ":validation:%d:%016x", sources_.validation->size(),
                            status_.Checksum(*sources_.validation));
    } else if (validation_share_ != Validation().share) {
      absl::StrAppend(&text, ":validation:", validation_share_);
    }
    return text;
  }

 private:
  std::string HeldOutText() const {
    if (sources_.validation != nullptr) {
      return absl::StrCat(GroupDigits(validation_.tokens), " more for validation");
    }
    if (validation_share_ == 0) return "none for validation";
    return absl::StrCat("last ", validation_share_ * 100, " % for validation");
  }

  // One window less than would fit, which leaves room for any offset below `seq`; but one at least.
  int64_t TrainWindows() const { return std::max<int64_t>((train_.tokens - 1) / seq_ - 1, 1); }

  // Offsets that the first window of an epoch may have.
  int64_t Offsets() const {
    const int64_t room = train_.tokens - TrainWindows() * seq_;  // one for the last target
    return std::min(seq_, room);
  }

  int64_t WindowBegin(Split split, int64_t number) const {
    const Position at = PositionOf(number, samples(split));
    if (split == Split::kValidation) return at.sample * seq_;
    const uint64_t epoch = static_cast<uint64_t>(at.epoch);
    const int64_t offset = static_cast<int64_t>(RandomBits(seed_, epoch, kOffsetDomain, 0) %
                                                static_cast<uint64_t>(Offsets()));
    return offset + Permutation(samples(split), seed_, epoch)(at.sample) * seq_;
  }

  const WindowSources sources_;
  const double validation_share_;
  const int64_t seq_;
  const uint64_t seed_;
  TokenRange train_;
  TokenRange validation_;
  ReadStatus status_;
};

absl::Status TooShort(const std::string& path, const WindowSources& sources, int64_t size,
                      int64_t seq) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has ", size, " ", sources.unit, ", less than one window of ", seq + 1,
                   " (sequence length ", seq, " and the ", sources.unit_of_one,
                   " that follows); give a longer text or a shorter sequence"));
}

// The fewest tokens of which `share` is a window; none where no file can have as many.
std::optional<int64_t> NeededFor(double share, int64_t window) {
  constexpr double kMostTokens = 0x1p53;  // up to here every whole number is a double
  const double about = static_cast<double>(window) / share;
  if (!(about <= kMostTokens)) return std::nullopt;
  int64_t needed = static_cast<int64_t>(about) - 1;
  while (HeldOut(needed, share) < window) ++needed;
  return needed;
}

absl::Status CheckSizes(const WindowSources& sources, const DataRequest& request) {
  const int64_t size = sources.train->size();
  const int64_t window = request.seq + 1;
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.path, " is empty; expected ", sources.kind));
  }
  if (size < window) return TooShort(request.path, sources, size, request.seq);
  if (sources.validation != nullptr) {
    const int64_t other = sources.validation->size();
    if (other >= window) return absl::OkStatus();
    const std::string& path =
        request.validation.path.empty() ? request.path : request.validation.path;
    return TooShort(absl::StrCat(path, ", the validation,"), sources, other, request.seq);
  }
  const double share = request.validation.share;
  if (share == 0) return absl::OkStatus();
  const std::optional<int64_t> needed = NeededFor(share, window);
  if (needed && size >= *needed) return absl::OkStatus();
  const std::string instead =
      needed ? absl::StrCat("so at least ", *needed, " ", sources.unit,
                            " are needed; give a longer text or a shorter sequence")
             : "which no file is long enough for; give a larger share";
  return absl::InvalidArgumentError(
      absl::StrCat(request.path, " has ", size, " ", sources.unit, "; its last ", share * 100,
                   " %, held out for validation, must hold one window of ", window,
                   " (sequence length ", request.seq, "), ", instead, ", or --validation 0"));
}

}  // namespace

int64_t HeldOut(int64_t size, double share) {
  return static_cast<int64_t>(static_cast<double>(size) * share);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeWindowDataset(WindowSources sources,
                                                           const DataRequest& request) {
  if (absl::Status status = CheckSizes(sources, request); !status.ok()) return status;
  return std::make_unique<WindowDataset>(std::move(sources), request);
}

}  // namespace sluice
