#include "models/data/documents/documents.h"

#include <xxhash.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/corpora/read_status.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"

namespace sluice {
namespace {

// A document, or a part of a long one, within a window.
struct Part {
  int64_t begin;    // in the source
  int32_t tokens;   // at most `seq`
  int32_t counted;  // targets
  bool has_next;    // whether the target of the last token follows it in the document
};

// The parts of a split and the windows that they lie in.
struct Windows {
  const TokenSource* source = nullptr;
  std::vector<Part> parts;
  std::vector<int64_t> first;  // [window] its first part; at last the number of parts
  int64_t documents = 0;       // with a target that counts
  int64_t tokens = 0;

  int64_t count() const { return static_cast<int64_t>(first.size()) - 1; }
};

// Puts documents into windows one after another.
class Packer {
 public:
  Packer(const Documents& documents, int64_t seq, bool packed)
      : documents_(documents), seq_(seq), packed_(packed) {
    windows_.source = documents.tokens.get();
  }

  Windows Pack(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Add(static_cast<size_t>(i));
    windows_.first.push_back(static_cast<int64_t>(windows_.parts.size()));
    return std::move(windows_);
  }

 private:
  void Add(size_t document) {
    const int64_t end = documents_.begins[document + 1];
    // A longer one has no tokens that do not count.
    const bool all_count = documents_.counted.empty() || end - documents_.begins[document] > seq_;
    if (!all_count && documents_.counted[document] == 0) return;
    bool is_first = true;
    for (int64_t at = documents_.begins[document]; at + 1 < end; at += seq_) {
      const int64_t tokens = std::min(seq_, end - at);
      const bool has_next = at + tokens < end;
      const int64_t counted = has_next ? tokens : tokens - 1;
      Place({.begin = at,
             .tokens = static_cast<int32_t>(tokens),
             .counted = static_cast<int32_t>(all_count ? counted : documents_.counted[document]),
             .has_next = has_next});
      if (is_first) ++windows_.documents;
      is_first = false;
      windows_.tokens += tokens;
    }
  }

  void Place(const Part& part) {
    if (!packed_ || part.tokens > room_) {
      windows_.first.push_back(static_cast<int64_t>(windows_.parts.size()));
      room_ = seq_;
    }
    windows_.parts.push_back(part);
    room_ -= part.tokens;
  }

  const Documents& documents_;
  const int64_t seq_;
  const bool packed_;
  Windows windows_;
  int64_t room_ = 0;
};

// Which tokens count is among the tokens.
uint64_t HashOfBorders(const Documents& documents, uint64_t seed) {
  return XXH3_64bits_withSeed(documents.begins.data(),
                              documents.begins.size() * sizeof(documents.begins[0]), seed);
}

class DocumentDataset : public Dataset {
 public:
  DocumentDataset(Documents train, std::unique_ptr<Documents> validation, bool packed,
                  std::vector<std::string> notes, const DataRequest& request)
      : train_documents_(std::move(train)),
        validation_documents_(std::move(validation)),
        packed_(packed),
        notes_(std::move(notes)),
        vocabulary_(request.vocabulary),
        seq_(request.seq),
        seed_(request.seed) {
    const int64_t all = train_documents_.count();
    const double share = validation_documents_ != nullptr ? 0 : request.validation.share;
    const int64_t held_out =
        share > 0 ? std::min(all, std::max<int64_t>(1, HeldOut(all, share))) : 0;
    train_ = Packer(train_documents_, seq_, packed).Pack(0, all - held_out);
    validation_ =
        validation_documents_ != nullptr
            ? Packer(*validation_documents_, seq_, packed).Pack(0, validation_documents_->count())
            : Packer(train_documents_, seq_, packed).Pack(all - held_out, all);
  }

  std::string description() const override {
    return absl::StrCat("documents: ", GroupDigits(train_.documents), " of ",
                        GroupDigits(train_.tokens), " tokens in ", GroupDigits(train_.count()),
                        " windows", packed_ ? "" : ", one each", ", vocabulary ",
                        GroupDigits(vocabulary_), ", ", GroupDigits(validation_.documents),
                        " for validation");
  }
  bool has_documents() const override { return true; }
  int64_t samples(Split split) const override { return Of(split).count(); }
  int classes() const override { return vocabulary_; }
  int64_t input_size() const override { return seq_; }
  DType input_dtype() const override { return DType::kInt32; }
  std::vector<std::string> notes() const override { return notes_; }
  absl::Status status() const override { return status_.Get(); }
  absl::Status CheckUnchanged() const override {
    absl::Status status = train_documents_.tokens->CheckUnchanged();
    if (validation_documents_ != nullptr) {
      status.Update(validation_documents_->tokens->CheckUnchanged());
    }
    return status;
  }

  void Fill(Split split, int64_t index, int64_t size, [[maybe_unused]] DType dtype,
            const SampleBuffers& out) const override {
    assert(dtype == DType::kInt32 && index >= 0 && size >= 0);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < size; ++i) {
      SampleBuffers one = out;
      if (out.input != nullptr) one.input = static_cast<int32_t*>(out.input) + i * seq_;
      if (out.targets != nullptr) one.targets += i * seq_;
      if (out.starts != nullptr) one.starts += i * seq_;
      FillWindow(Of(split), WindowOf(split, index * size + i), one, &tokens);
    }
  }

  int64_t counted_targets(Split split, int64_t index, int64_t size) const override {
    const Windows& windows = Of(split);
    int64_t counted = 0;
    for (int64_t i = 0; i < size; ++i) {
      const auto window = static_cast<size_t>(WindowOf(split, index * size + i));
      for (int64_t p = windows.first[window]; p < windows.first[window + 1]; ++p) {
        counted += windows.parts[static_cast<size_t>(p)].counted;
      }
    }
    return counted;
  }

 protected:
  std::string MakeFingerprint() const override {
    uint64_t hash = status_.Checksum(*train_.source);
    if (validation_documents_ != nullptr) {
      const uint64_t both[] = {hash, status_.Checksum(*validation_.source)};
      hash = XXH3_64bits(both, sizeof(both));
    }
    // The same tokens may be cut into documents elsewhere.
    uint64_t borders = HashOfBorders(train_documents_, 0);
    if (validation_documents_ != nullptr) borders = HashOfBorders(*validation_documents_, borders);
    return absl::StrFormat("documents:%d:%d:%d:%d:%016x:%016x", train_.documents, train_.count(),
                           validation_.documents, validation_.count(), hash, borders);
  }

 private:
  const Windows& Of(Split split) const { return split == Split::kTrain ? train_ : validation_; }

  int64_t WindowOf(Split split, int64_t number) const {
    const Position at = PositionOf(number, samples(split));
    if (split == Split::kValidation) return at.sample;
    return Permutation(samples(split), seed_, static_cast<uint64_t>(at.epoch))(at.sample);
  }

  // `tokens` is memory to read into.
  void FillWindow(const Windows& windows, int64_t window, const SampleBuffers& out,
                  std::vector<int32_t>* tokens) const {
    const auto w = static_cast<size_t>(window);
    int64_t at = 0;
    for (int64_t p = windows.first[w]; p < windows.first[w + 1]; ++p) {
      const Part& part = windows.parts[static_cast<size_t>(p)];
      if (out.starts != nullptr)
        std::fill_n(out.starts + at, part.tokens, static_cast<int32_t>(at));
      if (out.input != nullptr || out.targets != nullptr) {
        tokens->resize(static_cast<size_t>(part.tokens) + (part.has_next ? 1 : 0));
        status_.Read(*windows.source, part.begin, absl::MakeSpan(*tokens));
        FillPart(part, *tokens, at, out);
      }
      at += part.tokens;
    }
    Pad(at, out);
  }

  static void FillPart(const Part& part, absl::Span<const int32_t> tokens, int64_t at,
                       const SampleBuffers& out) {
    auto* const input = static_cast<int32_t*>(out.input);
    for (int64_t i = 0; i < part.tokens; ++i) {
      const auto next = static_cast<size_t>(i) + 1;
      if (input != nullptr) input[at + i] = IdOfToken(tokens[next - 1]);
      if (out.targets != nullptr) {
        out.targets[at + i] = next < tokens.size() && tokens[next] >= 0 ? tokens[next] : kNoTarget;
      }
    }
  }

  void Pad(int64_t at, const SampleBuffers& out) const {
    const int64_t left = seq_ - at;
    if (out.input != nullptr) std::fill_n(static_cast<int32_t*>(out.input) + at, left, 0);
    if (out.targets != nullptr) std::fill_n(out.targets + at, left, kNoTarget);
    if (out.starts != nullptr) std::fill_n(out.starts + at, left, static_cast<int32_t>(at));
  }

  const Documents train_documents_;
  const std::unique_ptr<Documents> validation_documents_;
  const bool packed_;
  const std::vector<std::string> notes_;
  const int32_t vocabulary_;
  const int64_t seq_;
  const uint64_t seed_;
  Windows train_;
  Windows validation_;
  ReadStatus status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeDocumentDataset(Documents train,
                                                             std::unique_ptr<Documents> validation,
                                                             bool packed,
                                                             std::vector<std::string> notes,
                                                             const DataRequest& request) {
  if (request.seq > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("sequence length ", request.seq,
                                                   " is too long for documents; expected at most ",
                                                   std::numeric_limits<int32_t>::max()));
  }
  auto data = std::make_unique<DocumentDataset>(std::move(train), std::move(validation), packed,
                                                std::move(notes), request);
  if (data->samples(Split::kTrain) > 0) return data;
  return absl::InvalidArgumentError(absl::StrCat(
      request.path, " leaves no document to train on: ", data->description(),
      "; expected at least one with two tokens, and a target that counts, beside what --validation "
      "holds out"));
}

}  // namespace sluice
